"""The backend `rabbitmq`: a relay publishes ready tickets, and consumers on any number of hosts claim them."""
