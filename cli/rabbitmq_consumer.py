"""Run the jobs that RabbitMQ distributes: `turno work --from-broker`, as `python cli/rabbitmq_consumer.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["work", "--from-broker", *sys.argv[1:]], prog_name="turno")
