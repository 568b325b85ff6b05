"""HTTP: requests in, problem details out."""
