"""The tenants, and the login of a process as exactly one tenant."""
