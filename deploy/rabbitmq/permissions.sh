#!/bin/sh
# Creates a virtual host for Turno, and a user with the minimal rights for set-up, relay and consumers.
# Run it once on a node, with TURNO_SETUP_PASSWORD, TURNO_RELAY_PASSWORD and TURNO_CONSUMER_PASSWORD in the environment.
# The web needs no user: it does not connect to the broker.
set -eu

# Passwords are passed by standard input, because every user of this host can read the arguments of a process.
add_user() {
    printf '%s\n' "$2" | rabbitmqctl add_user "$1"
}

rabbitmqctl add_vhost turno

# Creates the exchange and the queues: RABBITMQ_URL of one run of `turno broker create`. Afterwards: `rabbitmqctl delete_user turno_setup`.
add_user turno_setup "$TURNO_SETUP_PASSWORD"
rabbitmqctl set_permissions -p turno turno_setup '^turno(\..*)?$' '^turno(\..*)?$' '^turno(\..*)?$'

# Publishes: TURNO_RABBITMQ_RELAY_URL.
add_user turno_relay "$TURNO_RELAY_PASSWORD"
rabbitmqctl set_permissions -p turno turno_relay '^$' '^turno$' '^$'

# Consumes: RABBITMQ_URL.
add_user turno_consumer "$TURNO_CONSUMER_PASSWORD"
rabbitmqctl set_permissions -p turno turno_consumer '^$' '^$' '^turno\.jobs$'

# The default user of every new broker, whose password is public.
rabbitmqctl delete_user guest || true
