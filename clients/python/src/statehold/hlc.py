"""Hybrid logical clock timestamps: versions of keys, fencing tokens, and what requests are stamped with."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"([0-9]+):([0-9]+):([^:\0]+)")
_UINT64_LIMIT = 1 << 64


@dataclass(frozen=True, order=True)
class Hlc:
    """A hybrid logical clock timestamp, ordered by wall, then counter, then node.

    A version is one, and so is a fencing token: of two, the later holder of a lock has the greater.
    """

    wall: int
    """Milliseconds since the Unix epoch."""
    counter: int
    """Orders timestamps of the same millisecond."""
    node: str
    """Who made it; not empty, without a colon."""

    @classmethod
    def parse(cls, text: str) -> Hlc:
        """Reads ``wall:counter:node``, with wall and counter in decimal of any width.

        Raises ``ValueError`` if the text is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a timestamp of the form wall:counter:node")
        wall, counter = int(found[1]), int(found[2])
        if max(wall, counter) >= _UINT64_LIMIT:
            raise ValueError(f"the wall or the counter of {text!r} does not fit 64 bits")
        return cls(wall, counter, found[3])

    def __str__(self) -> str:
        return f"{self.wall}:{self.counter}:{self.node}"


class HlcClock:
    """What a client stamps its requests with. Every timestamp is greater than the one before.

    A clock that ran ahead of the wall time by more than ``AHEAD_MAX_MS`` starts over from it: the server would
    refuse what it stamps.
    """

    AHEAD_MAX_MS = 60_000
    # One of the official clients reads counters as 32-bit integers with a sign.
    COUNTER_LIMIT = 1 << 31

    def __init__(self, client_id: str) -> None:
        # A colon would not fit into a timestamp.
        self._node = client_id.replace(":", "-") or "client"
        self._wall = 0
        self._counter = 0

    def now(self, wall_ms: int) -> Hlc:
        """The next timestamp, at ``wall_ms`` milliseconds since the Unix epoch."""
        if wall_ms > self._wall or self._wall > wall_ms + self.AHEAD_MAX_MS:
            self._wall, self._counter = wall_ms, 0
        elif self._counter + 1 < self.COUNTER_LIMIT:
            self._counter += 1
        else:
            self._wall, self._counter = self._wall + 1, 0
        return Hlc(self._wall, self._counter, self._node)
