#!/bin/sh
# Usage: restored.sh
# After the restore of a database, by restore.sh or to a point in time: pauses every tenant and prints the next
# steps. No web and no worker may run.
# As a superuser, by libpq's own variables (PGHOST, PGUSER, PGDATABASE, and a ~/.pgpass).
set -eu
: "${PGDATABASE:?which database?}"
resumed=$(psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --file=- <<'SQL'
UPDATE turno.tenants SET paused_at = clock_timestamp() WHERE state = 'active' AND paused_at IS NULL
RETURNING '  turno tenant set ' || slug || ' --resumed';
SQL
)
echo "restored $PGDATABASE; every tenant is paused. Next:"
echo "  turno db check"
echo "  turno effect doubt --all"
echo "$resumed"
