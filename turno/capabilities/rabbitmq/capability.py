"""RabbitMQ as a backend: a relay publishes messages, and consumers claim the jobs that messages name."""

from turno.capability import Backend, Capability, Command
from turno.tenancy.rights.matrix import Matrix, roles

_PACKAGE = "turno.capabilities.rabbitmq"

CAPABILITY = Capability(
    name="rabbitmq",
    control=Matrix(
        functions={
            "unpublished": roles("engine"),
            "mark_published": roles("engine"),
            "unpublish": roles("engine"),
            "claim_message": roles("engine"),
        },
        invokers=frozenset({"goes_before"}),  # called by claim_message alone, which has pinned the path
    ),
    commands={
        "broker create": Command(
            f"{_PACKAGE}.command:broker", "Create the exchange and queues in RabbitMQ, check existing ones."
        )
    },
    # The web opens no connection to the broker: a notification wakes the relay as it wakes the workers of a pool.
    backends={
        "rabbitmq": Backend(
            "turno.queues.interface:PoolQueue",
            "turno work --from-broker",
            needs=("rabbitmq_url",),
            sessions=3,
            program=f"{_PACKAGE}.command:consumer_worker",
            secrets=("rabbitmq_url", "rabbitmq_relay_url"),
        )
    },
)
