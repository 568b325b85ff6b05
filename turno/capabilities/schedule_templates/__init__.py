"""Templates of schedules: recurring jobs of all tenants, present and future, each in its own time zone."""
