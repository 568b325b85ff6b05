#!/bin/sh
# Usage, in postgresql.conf: archive_command = '/opt/turno/deploy/backup/archive-wal.sh %p %f /backup/wal'
# Stores a segment of the write-ahead log in a folder, and syncs it before the server may remove it. After a crash the server
# sends a segment again: an equal segment is accepted, a different segment is refused.
set -eu
umask 077
path=${1:?which segment?}
kept=${3:?which folder?}/${2:?under which name?}
if [ -e "$kept" ]; then
    cmp "$path" "$kept"
    exit
fi
cp "$path" "$kept.part"
sync "$kept.part"
mv "$kept.part" "$kept"
sync "$3"
