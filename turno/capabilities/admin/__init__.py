"""The operator's API and pages, over many tenants."""
