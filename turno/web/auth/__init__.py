"""The user, tenant and site of a request."""
