"""Run a function for many schemas over a few connections, and report each end."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection

Connect = Callable[[], Connection[Any]]
Task = TypeVar("Task")
Result = TypeVar("Result")


@contextmanager
def opened(connect: Connect) -> Iterator[Connection[Any]]:
    """Open an autocommit connection for this block and close it after."""
    with connect() as admin:
        admin.autocommit = True
        yield admin


def fan_out(
    connect: Connect,
    tasks: Sequence[Task],
    work: Callable[[Connection[Any], Task], Result],
    *,
    jobs: int,
    progress: Callable[[Result, int, int], None] | None = None,
) -> list[Result]:
    """Return the results of `work` in the order of the tasks; `progress` receives them in the order of their ends.

    `jobs` is the number of parallel tasks, each on its own connection. An interrupt drops the waiting tasks.
    """
    idle: list[Connection[Any]] = []

    def one(task: Task) -> Result:
        admin = idle.pop() if idle else connect()
        admin.autocommit = True
        try:
            return work(admin, task)
        finally:
            # A connection the server has closed is not handed on: one lost schema is enough.
            if not admin.broken:
                idle.append(admin)

    with ThreadPoolExecutor(max(1, jobs), thread_name_prefix="migrate") as threads:
        futures = [threads.submit(one, task) for task in tasks]
        try:
            for ended, future in enumerate(as_completed(futures), start=1):
                result = future.result()
                if progress is not None:
                    progress(result, ended, len(futures))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
        finally:
            for admin in idle:
                admin.close()
        return [future.result() for future in futures]
