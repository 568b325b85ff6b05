"""The one door for commands: enqueue, cancel, retry."""
