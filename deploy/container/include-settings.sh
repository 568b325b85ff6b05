#!/bin/sh
# Run once by the image of PostgreSQL, when it has made the data folder.
set -eu
echo "include = '/etc/turno/postgresql.conf'" >> "$PGDATA/postgresql.conf"
