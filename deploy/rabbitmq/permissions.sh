#!/bin/sh
# A virtual host of Turno's own, and a user for each side, who may do what that side does and nothing else.
# Run once on a node, with TURNO_SETUP_PASSWORD, TURNO_RELAY_PASSWORD and TURNO_CONSUMER_PASSWORD in the environment.
# The web needs no user: it never speaks to the broker.
set -eu

# A password goes by standard input: every user of this host can read the arguments of a process.
add_user() {
    printf '%s\n' "$2" | rabbitmqctl add_user "$1"
}

rabbitmqctl add_vhost turno

# Makes the exchange and the queues: RABBITMQ_URL of one run of `turno broker create`. Then `rabbitmqctl delete_user turno_setup`.
add_user turno_setup "$TURNO_SETUP_PASSWORD"
rabbitmqctl set_permissions -p turno turno_setup '^turno(\..*)?$' '^turno(\..*)?$' '^turno(\..*)?$'

# Publishes: TURNO_RABBITMQ_RELAY_URL.
add_user turno_relay "$TURNO_RELAY_PASSWORD"
rabbitmqctl set_permissions -p turno turno_relay '^$' '^turno$' '^$'

# Consumes: RABBITMQ_URL.
add_user turno_consumer "$TURNO_CONSUMER_PASSWORD"
rabbitmqctl set_permissions -p turno turno_consumer '^$' '^$' '^turno\.jobs$'

# The user that every new broker has, with a password that everybody knows.
rabbitmqctl delete_user guest || true
