"""The exit codes of a child; that a job ended is known by its row only."""

FINISHED = 0
OUT_OF_MEMORY = 70
LOGIN_REFUSED = 71
TIME_LIMIT = 72
BROKEN = 73
LEFT = 74  # the handler left by sys.exit(0)
DATABASE_AWAY = 75  # it was unreachable when the attempt began or ended
DATABASE_BUSY = 76  # a lock, or no free connection, prevented the begin or the record of the attempt
UNRECORDED = 77  # it refused the record of the attempt for a reason that will not pass
