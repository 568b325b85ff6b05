"""Words on jobs, by which operators find and change jobs of all tenants."""
