"""The changes of a watched key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .errors import Ended, LossKind, StoreError
from .replies import ValueDeleted, ValueSet


@dataclass(frozen=True)
class Gap:
    """Changes were not seen: the connection was lost, or nobody read for too long. Read the key.

    What comes after a gap is complete again.
    """


WatchEvent = ValueSet | ValueDeleted | Gap


class Watch:
    """The changes of one key, in the order of their versions, until it is closed::

        async with await store.watch("setpoint") as watch:
            async for event in watch:
                match event:
                    case ValueSet(value): ...
                    case ValueDeleted(): ...
                    case Gap(): ...

    The iteration ends when the watch is closed or the client disconnects, and raises ``StoreError`` if the watch
    ended otherwise. It has one reader at a time.

    ``watch_capacity`` changes wait for a reader (``Options``); when one more comes, they give way to a ``Gap``.
    """

    def __init__(self, capacity: int, close: Callable[[Watch], None]) -> None:
        self._capacity = capacity
        self._close = close
        self._events: deque[WatchEvent] = deque()
        self._is_over = False
        self._error: StoreError | None = None
        self._woken = asyncio.Event()

    def close(self) -> None:
        """Ends the watch."""
        if not self._is_over:
            self._close(self)
            self.end(None)

    def push(self, event: WatchEvent) -> None:
        if len(self._events) >= self._capacity:
            self._events.clear()
            self._events.append(Gap())
        if not (isinstance(event, Gap) and self._events and isinstance(self._events[-1], Gap)):
            self._events.append(event)
        self._woken.set()

    def end(self, error: StoreError | None) -> None:
        if not self._is_over:
            self._is_over, self._error = True, error
            self._woken.set()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._events:
            if self._is_over:
                raise self._error if self._error and not _is_asked_for(self._error) else StopAsyncIteration
            self._woken.clear()
            await self._woken.wait()
        return self._events.popleft()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _is_asked_for(error: StoreError) -> bool:
    return isinstance(error, Ended) and error.loss.kind is LossKind.REQUESTED
