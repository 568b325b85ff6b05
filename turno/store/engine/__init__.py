"""SQL of the engine's login: claims, workers, leases, recovery."""
