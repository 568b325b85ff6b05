"""Tasks that a resident process, or cron, runs for all tenants."""
