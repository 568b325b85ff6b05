"""What every request and every answer has in common: bodies, headers, limits, problems."""
