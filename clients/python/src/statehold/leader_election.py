"""One of many: who holds a lock is the leader, and its name is the key's value."""

from __future__ import annotations

from .contender import Lost
from .hlc import Hlc
from .lock import Lock
from .replies import ValueDeleted, ValueSet
from .state_store import StateStore
from .watch import Watch


class LeaderElection:
    """An election that candidates take part in and everybody can watch::

    election = LeaderElection(store, "plant/leader", lease=10)
    while True:
        async with await election.campaign("controller-1") as leadership:
            print("leading with token", leadership.token)
            await leadership.lost()
    """

    def __init__(self, store: StateStore, key: bytes | str, *, lease: float) -> None:
        """The election of ``key``, whose leader shows itself every third of ``lease`` seconds."""
        self._store = store
        self._key = key
        self._lease = lease

    async def campaign(self, candidate: bytes | str, *, wait: float | None = None) -> Leadership:
        """Waits until ``candidate`` is the leader, ``wait`` seconds at most. The name must be the candidate's own.

        Raises ``NotInTime`` and ``StoreError``, as ``Lock.acquire``.
        """
        lock = await Lock.acquire(self._store, self._key, lease=self._lease, holder=candidate, wait=wait)
        return Leadership(lock)

    async def leader(self) -> bytes | None:
        """Who leads, or ``None``: nobody does. Raises ``StoreError``."""
        entry = await self._store.get(self._key)
        return entry.value if entry else None

    async def watch(self) -> LeaderWatch:
        """Who leads, and every change of it. Raises ``StoreError``."""
        return LeaderWatch(self, await self._store.watch(self._key))


class Leadership:
    """Being the leader, until it is lost or resigned from."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    @property
    def token(self) -> Hlc:
        """The fencing token: greater than that of every earlier leader."""
        return self._lock.token

    @property
    def is_held(self) -> bool:
        """True while this is the leader, as far as this side can know."""
        return self._lock.is_held

    async def lost(self) -> Lost:
        """Returns when the leadership is lost or resigned from."""
        return await self._lock.lost()

    async def resign(self) -> None:
        """Lets another lead. Raises ``StoreError`` if that failed: others wait until the lease is over then."""
        await self._lock.release()

    async def __aenter__(self) -> Leadership:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.resign()


class LeaderWatch:
    """First who leads at the moment, then whoever leads next; ``None``: nobody does.

    A leader that stays is reported at each renewal. Ends as a ``Watch`` does.
    """

    def __init__(self, election: LeaderElection, watch: Watch) -> None:
        self._election = election
        self._watch = watch
        self._is_known = False

    def close(self) -> None:
        """Ends the watch."""
        self._watch.close()

    def __aiter__(self) -> LeaderWatch:
        return self

    async def __anext__(self) -> bytes | None:
        if not self._is_known:
            self._is_known = True
            return await self._election.leader()
        match await self._watch.__anext__():
            case ValueSet(value):
                return value
            case ValueDeleted():
                return None
        return await self._election.leader()

    async def __aenter__(self) -> LeaderWatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
