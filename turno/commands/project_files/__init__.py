"""What `turno init` and `turno new-handler` write into a project: its keys, its handlers and their tests."""
