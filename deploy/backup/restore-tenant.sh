#!/bin/sh
# Usage: restore-tenant.sh FOLDER SLUG
# Restores one tenant to its state in the backup FOLDER, in one transaction, while the other tenants work. Later changes of
# the tenant are lost, jobs included. The tenant must be paused, without a running job, and its schema must be created by
# Turno: the application restores an adopted schema.
# As a superuser, by libpq's own variables (PGHOST, PGUSER, PGDATABASE, and a ~/.pgpass).
set -eu
umask 077
folder=${1:?which folder?}
slug=${2:?which tenant?}
: "${PGDATABASE:?which database?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

refuse() {
    echo "$1; nothing was changed" >&2
    exit 1
}

psql --no-psqlrc --quiet --tuples-only --no-align --field-separator=' ' --set=ON_ERROR_STOP=1 --set=slug="$slug" \
    --file=- > "$work/tenant" <<'SQL'
SELECT id, schema, paused_at IS NOT NULL, adopted_schema IS NOT NULL,
       EXISTS (SELECT FROM turno.tickets WHERE tenant_id = n.id AND state = 'running')
FROM turno.tenants n WHERE slug = :'slug' AND state = 'active';
SQL
[ -s "$work/tenant" ] || refuse "there is no active tenant $slug"
read -r id schema paused adopted running < "$work/tenant"
[ "$paused" = t ] || refuse "$slug is at work: turno tenant set $slug --paused"
[ "$running" = f ] || refuse "jobs of $slug are running: wait until they have ended, or cancel them"
[ "$adopted" = f ] || refuse "$slug has adopted a schema of the application's, which must be restored together with it"

# The names of Turno's schemas are random, so each line of the list with this word belongs to the schema.
pg_restore --list "$folder/database.dump" | grep -F " $schema " > "$work/list" ||
    refuse "$slug is not in the backup: it was added, or added again, after it"
pg_restore --use-list="$work/list" --file="$work/schema.sql" "$folder/database.dump"
pg_restore --data-only --file="$work/webhooks.sql" --schema=turno --table=webhooks "$folder/database.dump"
{
    echo "SET lock_timeout = '10s'; SET client_min_messages = warning;"
    echo "CREATE TEMP TABLE saved_webhooks AS SELECT * FROM turno.webhooks WITH NO DATA;"
    sed 's/^COPY turno\.webhooks /COPY pg_temp.saved_webhooks /' "$work/webhooks.sql"
    echo "DELETE FROM pg_temp.saved_webhooks WHERE tenant_id <> $id;"
    echo "DROP SCHEMA $schema CASCADE;"
    cat "$work/schema.sql"
    printf '\\set tenant %s\n\\set schema %s\n' "$id" "$schema"
    cat "$(dirname "$0")/derived.sql"
} > "$work/all.sql"
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --single-transaction --file="$work/all.sql" > /dev/null
echo "$slug is as it was in the backup, and paused. Next:"
echo "  turno db migrate"
echo "  turno effect doubt $slug"
echo "  turno maintain --once"
echo "  turno tenant set $slug --resumed"
