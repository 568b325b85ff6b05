"""What the handlers of the tests do wrong, by what it concerns."""
