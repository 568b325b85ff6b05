"""The sessions that the scenarios of a test file share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from nemesis.effects import EFFECTS
from tests.installation import ExampleInstallation
from tests.integration.store.interleavings.shared_job import SharedJob
from turno.testing.invariants import judge_of


@pytest.fixture(scope="module")
def shared_job(module_example: ExampleInstallation) -> Iterator[SharedJob]:
    """A job with sessions that stay open from one scenario to the next."""
    module_example.reset()
    # A function's statements are no steps that could be played one by one; a closed gate stops one after its INSERT.
    module_example.rows(
        """
        CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::integer);
            RETURN NULL;
        END $$;
        CREATE TRIGGER gate AFTER INSERT ON background_jobs FOR EACH STATEMENT EXECUTE FUNCTION gate(1)
        """
    )
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        # A rescue gives a lock up after 200 ms, which another session's next step may take on a crowded machine.
        patch.setattr("turno.store.engine.engine.RESCUE_LOCK_TIMEOUT", "30s")
        yield SharedJob(
            module_example, stack.enter_context(judge_of(module_example.url, module_example.one, EFFECTS)), stack
        )
