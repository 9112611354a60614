"""A key lease: a right that ends by itself."""

from __future__ import annotations

import asyncio

from .hlc import Hlc
from .replies import Deleted, Stored
from .state_store import StateStore


class Lease:
    """A key that carries its holder's name until the lease is over.

    Renewed and released by hand; see ``Lock`` for one that waits and renews itself.
    """

    def __init__(
        self,
        store: StateStore,
        key: bytes | str,
        holder: bytes | str,
        duration: float,
        taken: tuple[Hlc, float],
    ) -> None:
        self._store = store
        self._key = key
        self._holder = holder
        self._duration = duration
        self._token, self._until = taken

    @classmethod
    async def acquire(
        cls, store: StateStore, key: bytes | str, holder: bytes | str, duration: float
    ) -> Lease | None:
        """Takes the lease of ``key`` for ``holder`` and ``duration`` seconds, or nothing if another has it.

        Two that use the same ``holder`` have the same lease. Raises ``StoreError``.
        """
        taken = await _take(store, key, holder, duration)
        return None if taken is None else cls(store, key, holder, duration, taken)

    async def renew(self) -> bool:
        """Starts the time of the lease anew. False if another has it by now: then it is over.

        Raises ``StoreError``.
        """
        taken = await _take(self._store, self._key, self._holder, self._duration)
        if taken is None:
            self._until = _now()
            return False
        self._token, self._until = taken
        return True

    async def release(self) -> bool:
        """Ends the lease. False if it was over already. Raises ``StoreError``."""
        self._until = _now()
        return isinstance(await self._store.vdel(self._key, self._holder), Deleted)

    @property
    def token(self) -> Hlc:
        """The fencing token: greater than that of every earlier holder."""
        return self._token

    @property
    def remaining(self) -> float:
        """How many seconds the lease lasts unless it is renewed, counted from before it was asked for."""
        return max(0.0, self._until - _now())


async def _take(
    store: StateStore, key: bytes | str, holder: bytes | str, duration: float
) -> tuple[Hlc, float] | None:
    until = _now() + duration
    outcome = await store.set(key, holder, if_absent_or_equal=True, expires_in=duration)
    return (outcome.version, until) if isinstance(outcome, Stored) else None


def _now() -> float:
    return asyncio.get_running_loop().time()
