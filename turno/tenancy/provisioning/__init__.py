"""Making an installation, its companies and tenants, and removing them."""
