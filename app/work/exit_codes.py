"""What a child tells its parent by ending; nothing here proves that a job was finished, only its row does."""

FINISHED = 0
OUT_OF_MEMORY = 70
LOGIN_REFUSED = 71
TIME_LIMIT = 72
BROKEN = 73
LEFT = 74  # the handler left by sys.exit(0)
DATABASE_AWAY = 75  # it could not be told how the attempt began or ended
NOT_STARTED = 76  # the database would not have the attempt started now
UNRECORDED = 77  # the database refused to be told how the attempt began or ended
