"""The backend that tells workers of jobs over RabbitMQ."""
