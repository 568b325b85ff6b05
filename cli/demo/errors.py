"""Why a demo did not work out."""

from turno import TurnoError


class DemoFailed(TurnoError):
    """A step of the demo failed; the message names the step, the reason, and the log."""
