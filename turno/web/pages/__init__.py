"""What people see: the tenant's page, drawn here so that it works without a script."""
