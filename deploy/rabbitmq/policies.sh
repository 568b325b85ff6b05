#!/bin/sh
# Policies for Turno's queues; they are no part of a queue's own arguments, so they may be changed at any time.
set -eu

# From 4.0 a quorum queue drops a message after 20 returns. Consumers that are busy return messages to one another,
# and the database knows how often a job may be tried: no limit here. Releases before 4.0 have none and need no policy.
case "$(rabbitmqctl --quiet version)" in
3.*) ;;
*) rabbitmqctl set_policy -p turno --apply-to quorum_queues --priority 10 turno-unlimited \
    '^turno\.jobs$' '{"delivery-limit": -1}' ;;
esac
