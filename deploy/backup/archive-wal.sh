#!/bin/sh
# Usage, in postgresql.conf: archive_command = '/opt/turno/deploy/backup/archive-wal.sh %p %f /backup/wal'
# Keeps a segment of the write-ahead log in a folder, on the disk before the server may forget it. After a crash the server
# sends a segment again: that is well if it is the same, and refused if it is another.
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
