"""Who the tenants are and how a process becomes exactly one of them. Knows nothing of jobs."""
