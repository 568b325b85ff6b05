"""Runs asynchronous `handle` methods, and the outside calls of both kinds of handlers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeAlias, TypeVar

from turno.errors import HandlerMisuse

T = TypeVar("T")
# Yields the functions to call, and receives their results.
Steps: TypeAlias = Generator[Callable[[], Any], Any, Any]


def run_to_end(answer: T | Awaitable[T]) -> T:
    """Return the answer of a handler; an asynchronous handler runs here, and its tasks end with it."""
    return asyncio.run(_awaited(answer)) if isinstance(answer, Awaitable) else answer


def drive(steps: Steps) -> Any:
    """Make the calls that the steps yield, and return their result; within an event loop, return an awaitable."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result = _result(steps, _refused)
        try:
            result.send(None)  # to its end: it waits for nothing
        except StopIteration as end:
            return end.value
    return _result(steps, _awaited)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


async def _refused(answer: Awaitable[object]) -> NoReturn:
    if isinstance(answer, Coroutine):
        answer.close()
    raise HandlerMisuse("job.once takes an asynchronous function only where `handle` is asynchronous")


async def _result(steps: Steps, wait: Callable[[Awaitable[Any]], Awaitable[Any]]) -> Any:
    try:
        call = next(steps)
        while True:
            try:
                answer = call()
                if isinstance(answer, Awaitable):
                    answer = await wait(answer)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the step waits
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value
