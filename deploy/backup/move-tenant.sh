#!/bin/sh
# Usage: move-tenant.sh FROM TO SLUG
# Copies a tenant from one cell into another, where `turno tenant add` has created it: jobs, schedules, events, files, effects,
# its settings and its tables of the application. FROM and TO are the URLs of the databases, as a superuser, with the
# passwords in ~/.pgpass. Both cells must have the same release, and the tenant must be paused; FROM is not changed.
set -eu
umask 077
from=${1:?from which database?}
to=${2:?into which database?}
slug=${3:?which tenant?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

refuse() {
    echo "$1; nothing was changed" >&2
    exit 1
}

ask() {
    psql --no-psqlrc --quiet --tuples-only --no-align --field-separator=' ' --set=ON_ERROR_STOP=1 --set=slug="$slug" \
        --dbname="$1" --file=-
}

# Sets id and schema.
look() {
    ask "$1" > "$work/tenant" <<'SQL'
SELECT id, schema, paused_at IS NOT NULL, adopted_schema IS NOT NULL,
       EXISTS (SELECT FROM turno.tickets WHERE tenant_id = n.id AND state = 'running')
FROM turno.tenants n WHERE slug = :'slug' AND state = 'active';
SQL
    [ -s "$work/tenant" ] || refuse "$2 has no active tenant $slug"
    read -r id schema paused adopted running < "$work/tenant"
    [ "$paused" = t ] || refuse "in $2 $slug is at work: turno tenant set $slug --paused"
    [ "$running" = f ] || refuse "in $2 jobs of $slug are running: wait until they have ended, or cancel them"
    [ "$adopted" = f ] || refuse "in $2 $slug has adopted a schema of the application's, which moves it together with Turno's"
    printf 'SELECT source, version FROM %s.schema_migrations WHERE version > 0 ORDER BY 1, 2;\n' "$schema" > "$work/steps"
    ask "$1" < "$work/steps" > "$work/steps of $2"
}

jobs() {
    echo "SELECT count(*) FROM $2.background_jobs;" | ask "$1"
}

look "$to" "the new cell"
new=$schema
new_id=$id
look "$from" "the old cell"
cmp -s "$work/steps of the old cell" "$work/steps of the new cell" || refuse "the cells have different releases: turno db migrate"
[ "$(jobs "$to" "$new")" = 0 ] || refuse "in the new cell $slug has jobs already"

before=$(jobs "$from" "$schema")
pg_dump --data-only --schema="$schema" --exclude-table="$schema.schema_migrations" --file="$work/rows.sql" "$from"
echo "COPY (SELECT * FROM turno.webhooks WHERE tenant_id = $id) TO STDOUT;" | ask "$from" > "$work/webhooks"
echo "COPY (SELECT $new_id, key, at, start FROM turno.key_looks WHERE tenant_id = $id) TO STDOUT;" | ask "$from" > "$work/looks"
ask "$from" > "$work/settings.sql" <<'SQL'
SELECT format('UPDATE turno.tenants SET %s WHERE slug = %L;', string_agg(format('%I = %L', e.key, e.value), ', '), n.slug)
FROM turno.tenants n, jsonb_each_text(to_jsonb(n) - '{id, slug, company_id, schema, owner_role, handler_role, api_role,
    adopted_schema, state, paused_at, login_epoch, created_at}'::text[]) AS e
WHERE n.slug = :'slug' GROUP BY n.slug;
SQL
[ "$(jobs "$from" "$schema")" = "$before" ] || refuse "$slug gets new jobs in the old cell: stop its submissions first"

{
    echo "SET lock_timeout = '10s'; SET client_min_messages = warning;"
    # The rows contain the name of their schema, so this schema has the same name during the copy.
    echo "ALTER SCHEMA $new RENAME TO $schema; SET session_replication_role = replica;"
    cat <<SQL
SELECT format('TRUNCATE %s', string_agg(format('%I.%I', relnamespace::regnamespace, relname), ', ')) FROM pg_catalog.pg_class
WHERE relnamespace = '$schema'::regnamespace AND relkind IN ('r', 'p')
  AND relname <> 'schema_migrations' \gexec
SQL
    cat "$work/rows.sql"
    echo "SET session_replication_role = origin; ALTER SCHEMA $schema RENAME TO $new;"
    echo "CREATE TEMP TABLE saved_webhooks AS SELECT * FROM turno.webhooks WITH NO DATA;"
    for table in "pg_temp.saved_webhooks webhooks" "turno.key_looks looks"; do
        echo "COPY ${table% *} FROM STDIN;"
        cat "$work/${table#* }"
        echo '\.'
    done
    cat "$work/settings.sql"
    printf '\\set tenant %s\n\\set schema %s\n' "$new_id" "$new"
    cat "$(dirname "$0")/derived.sql"
} > "$work/all.sql"
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --single-transaction --dbname="$to" --file="$work/all.sql" > /dev/null
echo "$slug is in the new cell with $before jobs, and paused. Next, in the new cell:"
echo "  turno maintain --once"
echo "  turno tenant set $slug --resumed"
