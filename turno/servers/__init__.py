"""Private servers for the demo, the tests and the kit: PostgreSQL and RabbitMQ."""
