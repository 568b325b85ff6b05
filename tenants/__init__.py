"""The application's tenants: one company, its branches, and their initial orders."""
