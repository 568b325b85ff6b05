"""The matrix of rights, applied and rendered."""
