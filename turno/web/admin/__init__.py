"""/admin: the operator's pages, about many tenants at once."""
