#!/bin/sh
# Says `ok` if this node serves Turno: it is up, raises no alarm, its quorum queues would survive its loss or stop
# without losing their majority, and its listeners answer. Anything else is said by the check that fails.
set -eu

rabbitmq-diagnostics --quiet check_running
rabbitmq-diagnostics --quiet check_local_alarms
rabbitmq-diagnostics --quiet check_port_connectivity
# On a single node every quorum queue hangs on it, which is known and no news.
if [ "$(rabbitmqctl --quiet cluster_status --formatter json | grep -o '"rabbit@' | wc -l)" -gt 1 ]; then
    rabbitmq-diagnostics --quiet check_if_node_is_quorum_critical
fi
echo ok
