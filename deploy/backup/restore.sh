#!/bin/sh
# Usage: restore.sh FOLDER
# Restores what backup.sh wrote into a server that has no such database, under the same name, and pauses every tenant.
# Roles that this server has already stay as they are. No web and no worker may run.
# As a superuser, by libpq's own variables (PGHOST, PGUSER, and a ~/.pgpass).
set -eu
umask 077
folder=${1:?which folder?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

psql --no-psqlrc --quiet --tuples-only --no-align --dbname=postgres \
    --command="SELECT quote_ident(rolname) FROM pg_catalog.pg_roles" > "$work/existing"
awk 'NR == FNR { there[$0]; next }
     /^(CREATE|ALTER) ROLE / { name = $3; sub(/;$/, "", name); if (name in there) next }
     { print }' "$work/existing" "$folder/roles.sql" > "$work/roles.sql"
psql --no-psqlrc --quiet --dbname=postgres --set=ON_ERROR_STOP=1 --single-transaction --file="$work/roles.sql"

pg_restore --create --exit-on-error --dbname=postgres "$folder/database.dump"
PGDATABASE=$(pg_restore --list "$folder/database.dump" | sed -n 's/^; *dbname: //p')
export PGDATABASE
"$(dirname "$0")/restored.sh"
