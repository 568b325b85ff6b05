#!/bin/sh
# Prints `ok` if this node serves Turno: it runs, raises no alarm, its listeners answer, and each quorum queue would keep its
# majority without it (a single node is exempt). Otherwise the failed check prints the reason.
set -eu

rabbitmq-diagnostics --quiet check_running
rabbitmq-diagnostics --quiet check_local_alarms
rabbitmq-diagnostics --quiet check_port_connectivity
rabbitmq-diagnostics --quiet check_if_node_is_quorum_critical
echo ok
