"""Files of a tenant: uploaded for jobs to read, written by jobs for people to download; kept in its own schema."""
