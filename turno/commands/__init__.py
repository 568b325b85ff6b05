"""The commands of `turno`, one file each, and the programs that they start."""
