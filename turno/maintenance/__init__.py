"""What cron, or a resident worker, does for all tenants."""
