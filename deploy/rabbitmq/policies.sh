#!/bin/sh
# Policies of Turno's queues; unlike the arguments of a queue, policies can be changed at any time.
set -eu

# From 4.0 a quorum queue drops a message after 20 returns. Busy consumers return messages, and the database limits the
# attempts of a job: the queue has no limit. Releases before 4.0 have no limit and need no policy.
case "$(rabbitmqctl --quiet version)" in
3.*) ;;
*) rabbitmqctl set_policy -p turno --apply-to quorum_queues --priority 10 turno-unlimited \
    '^turno\.jobs$' '{"delivery-limit": -1}' ;;
esac
