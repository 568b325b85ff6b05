#!/bin/sh
# The image of PostgreSQL runs this script once, after it has created the data folder.
set -eu
echo "include = '/etc/turno/postgresql.conf'" >> "$PGDATA/postgresql.conf"
