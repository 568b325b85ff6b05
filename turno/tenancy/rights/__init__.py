"""The one matrix of who may do what, applied and rendered."""
