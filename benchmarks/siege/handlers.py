"""The jobs of the attackers: the misbehaving handlers of the tests, and two handlers that need a separate worker."""

from __future__ import annotations

import os
import signal

from handlers.batch_invoicing import BatchInvoicing
from tests.misbehaving_handlers import Faulty, FaultyHurried, FaultyOnce


class Stillborn(Faulty):
    """Kills its process when it is built: before its attempt could say that it begins."""

    type = "stillborn"

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Stranded(Faulty):
    """The same as Faulty, for the worker on the host that is going to be lost."""

    type = "stranded"


POOL = (BatchInvoicing, Faulty, FaultyHurried, FaultyOnce, Stillborn)
OTHER_HOST = (Stranded,)
