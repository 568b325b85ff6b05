"""What `turno init` and `turno handler add` write into a project: its keys, its handlers and their tests."""
