#!/bin/sh
# Ends with `ok` if this node serves Turno: it is up, raises no alarm, its listeners answer, and no quorum queue would lose
# its majority with it (on a single node all would, which is known and no news). Anything else is said by the check
# that fails.
set -eu

rabbitmq-diagnostics --quiet check_running
rabbitmq-diagnostics --quiet check_local_alarms
rabbitmq-diagnostics --quiet check_port_connectivity
rabbitmq-diagnostics --quiet check_if_node_is_quorum_critical
echo ok
