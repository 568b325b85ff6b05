"""Who the tenants are, and how a process logs in as exactly one of them."""
