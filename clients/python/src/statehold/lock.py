"""A lock that waits for its turn and renews itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from .contender import Action, Answer, Answered, Contender, Event, Held, Lost, Set
from .errors import NotInTime, StateholdError, StoreError, is_passing
from .hlc import Hlc
from .replies import Stored, ValueSet
from .state_store import StateStore
from .watch import Watch

_T = TypeVar("_T")

# Lower than any: what carries it is refused.
_NO_TOKEN = Hlc(0, 0, "lost")


class Lock:
    """A lock that is held, and renewed in the background until it is released::

        async with await Lock.acquire(store, "pump", lease=10) as lock:
            await store.set("pump/speed", "7", fencing=lock.token)

    Holding it is a belief: a process that sleeps for longer than the lease wakes up believing. What has to be safe
    carries the ``token``. A lock that nobody releases is renewed until its client ends.
    """

    def __init__(self, keeper: _Keeper, key: bytes, holder: bytes) -> None:
        self._keeper = keeper
        self.key = key
        """The key of the lock."""
        self.holder = holder
        """What the key is set to."""

    @classmethod
    async def acquire(
        cls,
        store: StateStore,
        key: bytes | str,
        *,
        lease: float,
        holder: bytes | str | None = None,
        wait: float | None = None,
    ) -> Lock:
        """Waits until the lock is free, and takes it for ``lease`` seconds at a time (more than 0).

        ``wait`` no longer than so many seconds; 0: one attempt, ``None``: for ever. ``holder`` is the value of the
        lock's key: two that use the same have the lock together; by default it is one that nobody else has.

        Raises ``NotInTime`` if another had it all the time, ``StoreError`` if the store refused, or if the one
        attempt had no answer.
        """
        if not lease > 0:
            raise ValueError(f"a lock cannot be held for {lease} s at a time: give more than 0")
        key_bytes = key.encode() if isinstance(key, str) else key
        holder = store.unique_holder() if holder is None else holder
        holder_bytes = holder.encode() if isinstance(holder, str) else holder
        keeper = _Keeper(store, key_bytes, holder_bytes, lease, is_single_attempt=wait == 0)
        try:
            await asyncio.wait_for(asyncio.shield(keeper.decided), wait or None)
        except asyncio.TimeoutError:
            keeper.release()
            raise NotInTime from None
        except BaseException:
            keeper.release()
            raise
        return cls(keeper, key_bytes, holder_bytes)

    @property
    def token(self) -> Hlc:
        """The fencing token of the newest renewal: greater than that of every earlier holder.

        Once the lock is lost it is one that every protected key refuses.
        """
        return self._keeper.held.token if self._keeper.held else _NO_TOKEN

    @property
    def is_held(self) -> bool:
        """True while the lock is held, as far as this side can know."""
        held = self._keeper.held
        return held is not None and asyncio.get_running_loop().time() < held.until

    async def lost(self) -> Lost:
        """Returns when the lock is lost or released."""
        return await asyncio.shield(self._keeper.over)

    async def release(self) -> None:
        """Gives the lock back. Raises ``StoreError`` if that failed: others wait until the lease is over then."""
        self._keeper.release()
        error = await asyncio.shield(self._keeper.released)
        if error is not None:
            raise error

    async def __aenter__(self) -> Lock:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()


class _Keeper:
    """Runs a ``Contender``: sends its requests and tells it the time."""

    def __init__(
        self, store: StateStore, key: bytes, holder: bytes, lease: float, *, is_single_attempt: bool
    ) -> None:
        self._store = store
        self._key = key
        self._holder = holder
        self._lease = lease
        self._is_single_attempt = is_single_attempt
        self._contender = Contender(lease)
        self._loop = asyncio.get_running_loop()
        self._request: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.held: Held | None = None
        # Whether the lock was had: the result, or the error why not.
        self.decided: asyncio.Future[None] = self._loop.create_future()
        self.over: asyncio.Future[Lost] = self._loop.create_future()
        self.released: asyncio.Future[StoreError | None] = self._loop.create_future()
        self._step(Event.START)

    def release(self) -> None:
        if not self.over.done():
            self.over.set_result(Lost.RELEASED)
        self.held = None
        self._step(Event.RELEASE)

    def _step(self, event: Event | Answered) -> None:
        for action in self._contender.step(self._loop.time(), event):
            self._execute(action)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (deadline := self._contender.deadline()) is not None:
            self._timer = self._loop.call_at(deadline, self._step, Event.TIMEOUT)

    def _execute(self, action: Set | Held | Lost | Action) -> None:
        match action:
            case Set(timeout):
                self._begin(self._set(min(timeout, self._store.timeout)))
            case Held():
                self.held = action
                _resolve(self.decided, None)
            case Lost():
                self.held = None
                _resolve(self.over, action)
            case Action.WATCH if self._is_single_attempt:
                self._fail(NotInTime())
                self._step(Event.RELEASE)
            case Action.WATCH:
                self._begin(self._watch())
            case Action.UNWATCH:
                self._unwatch()
            case Action.DELETE:
                self._begin(self._delete())
            case Action.END:
                _resolve(self.released, None)
                self._unwatch()

    def _begin(self, request: Coroutine[None, None, None]) -> None:
        """Begins a request; what the one before says does not count any more."""
        if self._request is not None and self._request is not asyncio.current_task():
            self._request.cancel()
        self._request = self._loop.create_task(request)

    async def _set(self, timeout: float) -> None:
        try:
            outcome = await self._store.set(
                self._key, self._holder, if_absent_or_equal=True, expires_in=self._lease, timeout=timeout
            )
        except StateholdError as error:
            is_only_attempt = self._is_single_attempt and self.held is None
            if is_only_attempt or not is_passing(error):
                self._fail(error)
                return
            answer: Hlc | Answer = Answer.UNKNOWN
        else:
            answer = outcome.version if isinstance(outcome, Stored) else Answer.REFUSED
        self._step(Answered(answer))

    async def _watch(self) -> None:
        try:
            watch = await self._store.watch(self._key)
        except StateholdError as error:
            if not is_passing(error):
                self._fail(error)
                return
            # Without a watch the contender looks again from time to time.
        else:
            self._watching = self._loop.create_task(self._follow(watch))
        self._step(Event.WATCHING)

    async def _follow(self, watch: Watch) -> None:
        async with watch:
            try:
                async for event in watch:
                    if not isinstance(event, ValueSet):
                        self._step(Event.FREED)
            except StoreError:
                pass  # The contender looks again from time to time.

    async def _delete(self) -> None:
        try:
            await self._store.vdel(self._key, self._holder)
        except StoreError as error:
            _resolve(self.released, error)
        self._step(Event.DELETED)

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _fail(self, error: StateholdError) -> None:
        """The lock cannot be had, or kept: the client has ended, or the store says no for good."""
        if not self.decided.done():
            self.decided.set_exception(error)
        _resolve(self.over, Lost.EXPIRED)
        self.held = None


def _resolve(future: asyncio.Future[_T], result: _T) -> None:
    if not future.done():
        future.set_result(result)
