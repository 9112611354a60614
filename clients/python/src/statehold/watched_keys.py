"""Watched keys: registered once for all watches of a key, and again on every new connection, because the store
forgets registrations with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from .connection import Message
from .errors import MalformedReply, QueueFull, StateholdError, StoreError, TimedOut, is_passing
from .hlc import Hlc
from .replies import Reply, change, registered
from .watch import Gap, Watch

# In seconds. How long a registration waits for its reply before it is sent again.
_REGISTRATION_TIMEOUT = 10.0
# Long enough for the nodes of a cluster to choose a leader.
_RETRY_AFTER = 1.0


class Requester(Protocol):
    """Sends requests."""

    async def request(self, words: Sequence[bytes], timeout: float, *, is_registration: bool = False) -> Reply: ...


class _WatchedKey:
    def __init__(self, key: bytes) -> None:
        self.key = key
        self.watches: list[Watch] = []
        # Watches that wait for the first registration; the others are told of a gap by the next one.
        self.waiting: dict[Watch, asyncio.Future[None]] = {}
        self.registration: asyncio.Task[None] | None = None
        self.is_registered = False
        # Of the last change reported: one that comes again is not reported again.
        self.last: Hlc | None = None


class WatchedKeys:
    """All watches of a session."""

    def __init__(self, requester: Requester, watches_max: int, capacity: int) -> None:
        self._requester = requester
        self._watches_max = watches_max
        self._capacity = capacity
        self._keys: dict[bytes, _WatchedKey] = {}
        self._count = 0
        self._is_connected = False
        self._stops: set[asyncio.Task[None]] = set()

    async def watch(self, key: bytes, timeout: float) -> Watch:
        """Returns when changes are reported."""
        if self._count >= self._watches_max:
            raise QueueFull(self._watches_max, "watches_max")
        watched = self._keys.setdefault(key, _WatchedKey(key))
        watch = Watch(self._capacity, lambda watch: self._remove(watched, watch))
        watched.watches.append(watch)
        self._count += 1
        if watched.is_registered:
            return watch
        waiting = watched.waiting[watch] = asyncio.get_running_loop().create_future()
        self._register(watched)
        try:
            await asyncio.wait_for(waiting, timeout)
        except asyncio.TimeoutError:
            watch.close()
            raise TimedOut(timeout) from None
        except BaseException:
            watch.close()
            raise
        return watch

    def connected(self) -> None:
        self._is_connected = True
        for watched in self._keys.values():
            self._register(watched)

    def connection_lost(self) -> None:
        """Registrations under way are worth nothing, and their ends neither."""
        self._is_connected = False
        for stop in self._stops:
            stop.cancel()
        for watched in self._keys.values():
            watched.is_registered = False
            if watched.registration is not None:
                watched.registration.cancel()
                watched.registration = None

    def notified(self, key: bytes, message: Message) -> None:
        watched = self._keys.get(key)
        if watched is None:
            return
        try:
            event = change(message)
        except MalformedReply:
            return
        if event.version is not None:
            if watched.last is not None and event.version <= watched.last:
                return
            watched.last = event.version
        for watch in watched.watches:
            watch.push(event)

    def end(self, error: StoreError) -> None:
        """No change comes any more."""
        for watched in list(self._keys.values()):
            self._end_key(watched, error)

    def _register(self, watched: _WatchedKey) -> None:
        if self._is_connected and watched.registration is None:
            watched.registration = asyncio.create_task(self._registering(watched))

    async def _registering(self, watched: _WatchedKey) -> None:
        """Asks until the store registers the key or refuses to."""
        while True:
            words = (b"KEYNOTIFY", watched.key)
            try:
                registered(await self._requester.request(words, _REGISTRATION_TIMEOUT, is_registration=True))
            except StateholdError as error:
                if is_passing(error):
                    await asyncio.sleep(_RETRY_AFTER)
                    continue
                if isinstance(error, StoreError):
                    self._end_key(watched, error)
                return None
            return self._registered(watched)

    def _registered(self, watched: _WatchedKey) -> None:
        watched.is_registered = True
        for watch in watched.watches:
            waiting = watched.waiting.pop(watch, None)
            if waiting is None:
                watch.push(Gap())
            elif not waiting.done():
                waiting.set_result(None)

    def _end_key(self, watched: _WatchedKey, error: StoreError) -> None:
        self._keys.pop(watched.key, None)
        self._count -= len(watched.watches)
        for watch in watched.watches:
            watch.end(error)
        watched.watches.clear()
        for waiting in watched.waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    def _remove(self, watched: _WatchedKey, watch: Watch) -> None:
        """A watch was closed. The store is told of the last one of a key."""
        if watch not in watched.watches:
            return
        watched.watches.remove(watch)
        watched.waiting.pop(watch, None)
        self._count -= 1
        if watched.watches:
            return
        del self._keys[watched.key]
        if watched.registration is not None:
            watched.registration.cancel()
            stop = asyncio.create_task(self._stop(watched.key))
            self._stops.add(stop)
            stop.add_done_callback(self._stops.discard)

    async def _stop(self, key: bytes) -> None:
        try:
            words = (b"KEYNOTIFY", key, b"STOP")
            await self._requester.request(words, _REGISTRATION_TIMEOUT, is_registration=True)
        except StateholdError:
            # It ends with the connection at the latest; what comes until then is for nobody.
            pass
