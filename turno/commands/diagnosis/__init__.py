"""What `turno doctor` looks at."""
