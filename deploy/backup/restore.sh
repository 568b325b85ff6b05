#!/bin/sh
# Usage: restore.sh FOLDER
# Restores a backup of backup.sh into a server without the database, under the same name, and pauses every tenant.
# Existing roles of this server stay unchanged. No web and no worker may run.
# As a superuser, by libpq's own variables (PGHOST, PGUSER, and a ~/.pgpass).
set -eu
umask 077
folder=${1:?name the folder of a backup}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

PGDATABASE=$(pg_restore --list "$folder/database.dump" | sed -n 's/^; *dbname: //p')
export PGDATABASE
# Every server has template1; the database of the backup may be `postgres` itself.
if psql --no-psqlrc --list --tuples-only --no-align --field-separator=/ --dbname=template1 | cut -d/ -f1 | grep -qxF "$PGDATABASE"
then
    echo "this server has a database $PGDATABASE; nothing was restored. If its data is not needed, remove it:" >&2
    echo "  dropdb --maintenance-db=template1 $PGDATABASE" >&2
    exit 1
fi
psql --no-psqlrc --quiet --tuples-only --no-align --dbname=template1 \
    --command="SELECT quote_ident(rolname) FROM pg_catalog.pg_roles" > "$work/existing"
awk 'NR == FNR { there[$0]; next }
     /^(CREATE|ALTER) ROLE / { name = $3; sub(/;$/, "", name); if (name in there) next }
     { print }' "$work/existing" "$folder/roles.sql" > "$work/roles.sql"
psql --no-psqlrc --quiet --dbname=template1 --set=ON_ERROR_STOP=1 --single-transaction --file="$work/roles.sql"

pg_restore --create --exit-on-error --dbname=template1 "$folder/database.dump"
"$(dirname "$0")/restored.sh"
