"""The reasons for taking a job back from a child that did not finish it, in the words of the job's history."""

import signal

from turno.runner import exit_codes

STOPPING = "its worker was stopped"
WORKER_ENDED = "its worker ended unexpectedly"
CUT_OFF = "its worker could not reach the database for too long"
NOT_STARTED = "it would have waited for the job before it"
TENANT_IN_TROUBLE = "its tenant's jobs could not be started a moment ago"
REPLY_LOST = "the reply to its claim was lost"
CANCELLED = "did not stop when it was cancelled"
ANOTHERS = "its process ended at another job of its batch"
SERVER_REPLACED = "another database server took over"
NOTIFICATIONS = (
    "its transaction was open while the server's notification queue filled: commit more often, and listen in no job"
)
# Reasons of a kill for which the job is not to blame.
BLAMELESS = (STOPPING, WORKER_ENDED, CUT_OFF, SERVER_REPLACED)
EXITS = {
    exit_codes.OUT_OF_MEMORY: "out of memory",
    exit_codes.LOGIN_REFUSED: "the tenant's login was refused",
    exit_codes.DATABASE_AWAY: "the database could not be reached",
    exit_codes.DATABASE_BUSY: "its tenant's data was locked, or the database had no room",
    exit_codes.UNRECORDED: "the database refused to record how it went",
}


def time_limit(seconds: float) -> str:
    """Return the words for a job that took longer than its type may."""
    return f"time limit of {seconds:g} s"


def transaction_limit(seconds: float) -> str:
    """Return the reason for a job with a transaction that was open longer than the limit of its type."""
    return f"a transaction was open for more than {seconds:g} s"


def locks(memory: int, most: int, *, crowded: bool) -> str:
    """Return the reason for a job with a session that held more locks than allowed."""
    while_full = " while the server's lock table is more than half full" if crowded else ""
    return f"its session held {memory:,} locks, and may hold {most:,}{while_full}: commit in chunks, as job.each does"


def of_end(code: int) -> str:
    """Return the reason of a child's exit from its exit code (negative for a signal)."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; if nobody sent it, the system ran out of memory" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"
    if code in EXITS:
        return EXITS[code]
    return f"exited with status {0 if code == exit_codes.LEFT else code} without finishing"
