#!/bin/sh
# Usage: backup.sh FOLDER
# Writes a backup for restore.sh and restore-tenant.sh into FOLDER, which must not exist: the database and the roles of its
# server, with the hashes of their passwords. Jobs continue meanwhile. The backup does not contain TURNO_MASTER_KEY: store it
# elsewhere.
# As a superuser, by libpq's own variables (PGHOST, PGUSER, PGDATABASE, and a ~/.pgpass).
set -eu
umask 077
folder=${1:?which folder?}
: "${PGDATABASE:?which database?}"
mkdir "$folder"

roles() {
    pg_dumpall --roles-only --file="$folder/part"
    # Newer releases write a random word here, at each run.
    grep -v -e '^\\restrict ' -e '^\\unrestrict ' "$folder/part" > "$folder/$1"
}

# A role that is created or dropped between the two dumps would be in only one dump.
roles roles.sql
for try in 1 2 3 4 5; do
    pg_dump --format=custom --create --file="$folder/part" "$PGDATABASE"
    mv "$folder/part" "$folder/database.part"
    roles later.sql
    if cmp -s "$folder/roles.sql" "$folder/later.sql"; then
        rm "$folder/part" "$folder/later.sql"
        pg_restore --list "$folder/database.part" > /dev/null
        mv "$folder/database.part" "$folder/database.dump"
        echo "$folder: $(grep -c '^CREATE ROLE' "$folder/roles.sql") roles, database $PGDATABASE"
        exit 0
    fi
    mv "$folder/later.sql" "$folder/roles.sql"
    echo "roles changed meanwhile: once more ($try)" >&2
done
echo "roles change all the time: back up while no tenant is added or removed" >&2
exit 1
