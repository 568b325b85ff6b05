"""How the database says that it cannot serve now, for rooms that do not know its driver."""

import psycopg

# Lost and refused connections, a pool without a free one in time, timeouts, a full disk, a server in recovery:
# psycopg makes them all OperationalErrors. A server that became a standby refuses writes with the other.
OUTAGE: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
