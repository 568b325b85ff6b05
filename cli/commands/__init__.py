"""The commands of `turno`, one file each."""
