"""The state store of the server."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

from .hlc import Hlc
from .replies import (
    Deleted,
    Entry,
    Missing,
    NotApplied,
    OtherValue,
    Stored,
    deletion,
    entry,
    page,
    set_outcome,
)
from .session import Session
from .watch import Watch

# The store reads them as numbers that every client can hold.
_EXPIRES_IN_MAX_MS = 1 << 53


class StateStore:
    """The state store of the server that a client is connected to.

    Keys are one byte or more, values any bytes; a ``str`` stands for its UTF-8. Every write has a *version*, which
    orders the writes of a key. Every method raises ``RefusedByStore`` if the store says no and ``OperationError``
    if there is no answer; after ``TimedOut`` and ``Ended`` it is unknown whether a write was executed.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def set(
        self,
        key: bytes | str,
        value: bytes | str,
        *,
        if_absent: bool = False,
        if_absent_or_equal: bool = False,
        if_absent_or: bytes | str | None = None,
        expires_in: float | None = None,
        fencing: Hlc | None = None,
        timeout: float | None = None,
    ) -> Stored | NotApplied:
        """Sets a key.

        ``if_absent`` (NX): only if there is no such key. ``if_absent_or_equal`` (NEX): or it has the value being
        set, to renew a lease. ``if_absent_or`` (NEX value): or it has this value, to compare and set. One of them
        at most.

        ``expires_in`` seconds from now, in whole milliseconds, 0.001 at least, the key is deleted (PX); without it
        an earlier expiry is cleared. ``fencing`` protects the key: from now on it takes no write without a token,
        or with an older one. ``timeout`` in seconds, else that of the options.

        Raises ``ValueError`` for arguments that cannot go together; nothing was sent then.
        """
        words = [b"SET", _bytes(key), _bytes(value)]
        if if_absent + if_absent_or_equal + (if_absent_or is not None) > 1:
            raise ValueError("give one of if_absent, if_absent_or_equal and if_absent_or")
        if if_absent:
            words.append(b"NX")
        elif if_absent_or_equal:
            words.append(b"NEX")
        elif if_absent_or is not None:
            words += [b"NEX", _bytes(if_absent_or)]
        if expires_in is not None:
            words += [b"PX", b"%d" % _milliseconds(expires_in)]
        timeout = self._session.options.timeout if timeout is None else timeout
        return set_outcome(await self._session.request(words, timeout, fencing=fencing))

    async def get(self, key: bytes | str) -> Entry | None:
        """The value of a key with its version, or ``None`` if there is no such key."""
        return entry(await self._session.request([b"GET", _bytes(key)], self._session.options.timeout))

    async def delete(self, key: bytes | str, *, fencing: Hlc | None = None) -> Deleted | Missing | OtherValue:
        """Deletes a key (DEL). A protected one needs a fencing token that is not older."""
        return await self._delete([b"DEL", _bytes(key)], fencing)

    async def vdel(
        self, key: bytes | str, value: bytes | str, *, fencing: Hlc | None = None
    ) -> Deleted | Missing | OtherValue:
        """Deletes a key if it has this value (VDEL)."""
        return await self._delete([b"VDEL", _bytes(key), _bytes(value)], fencing)

    async def scan(self, pattern: bytes | str) -> AsyncIterator[bytes]:
        """Lists the keys that match a glob: ``*`` any sequence, ``?`` one character, ``[ab]``, ``[a-z]``, ``[!a]``.

        A key that exists during the whole scan is listed once.
        """
        words = [b"SCAN", _bytes(pattern)]
        token: bytes | None = b""
        while token is not None:
            asked = [*words, token] if token else words
            keys, token = page(await self._session.request(asked, self._session.options.timeout))
            for key in keys:
                yield key

    async def watch(self, key: bytes | str) -> Watch:
        """Watches a key: every change from here on comes out of the ``Watch``."""
        return await self._session.watched.watch(_bytes(key), self._session.options.timeout)

    @property
    def timeout(self) -> float:
        """How long a request may take, in seconds: that of the options."""
        return self._session.options.timeout

    def unique_holder(self) -> bytes:
        """A name that no other holder of a lock has, also across restarts."""
        session = self._session
        return f"{session.client_id}/{session.seed:016x}/{session.next_number()}".encode()

    async def _delete(self, words: list[bytes], fencing: Hlc | None) -> Deleted | Missing | OtherValue:
        reply = await self._session.request(words, self._session.options.timeout, fencing=fencing)
        return deletion(reply)


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _milliseconds(seconds: float) -> int:
    if not seconds > 0:
        raise ValueError(f"a key cannot expire in {seconds} s: give more than 0")
    if math.isinf(seconds):
        return _EXPIRES_IN_MAX_MS
    return min(max(1, int(seconds * 1000)), _EXPIRES_IN_MAX_MS)
