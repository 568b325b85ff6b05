"""Common parts of requests and answers: bodies, headers, limits, problems."""
