"""Run what RabbitMQ distributes: `turno consume`, as `python cli/rabbitmq_consumer.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["consume", *sys.argv[1:]], prog_name="turno")
