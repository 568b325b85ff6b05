"""What a child tells its parent by ending; nothing here proves that a job was finished, only its row does."""

FINISHED = 0
OUT_OF_MEMORY = 70
LOGIN_REFUSED = 71
TIME_LIMIT = 72
BROKEN = 73
LEFT = 74  # the handler left by sys.exit(0)
DATABASE_AWAY = 75  # it could not be told how the attempt began or ended
DATABASE_BUSY = 76  # the same, for a lock or for want of room
UNRECORDED = 77  # it refused to be told, and would again
