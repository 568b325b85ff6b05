"""Three rings, faults and a browser."""
