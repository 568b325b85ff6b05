"""Live streams, their tickets and requests that wait."""
