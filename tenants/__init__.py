"""Who this application's tenants are: one company, its branches, and the orders that each begins with."""
