"""Run what RabbitMQ distributes, with resident children: `python cli/rabbitmq_consumer.py [--queues NAME,…] …`."""

import sys

from turno.commands.consume import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
