"""Files of a tenant, kept in its own schema: uploads for jobs, and files that jobs write for download."""
