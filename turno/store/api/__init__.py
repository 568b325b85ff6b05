"""SQL of the web's requests, under a tenant's API role: commands, jobs, notifications."""
