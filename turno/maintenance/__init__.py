"""What cron, or a resident worker, does for all tenants: rescue, promote, repair, expire, purge."""
