"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class BackoffLimits:
    """Limits of the wait between attempts to connect, in seconds."""

    wait_min: float = 0.1
    """The first wait; doubled with each attempt that fails."""
    wait_max: float = 30.0
    """The longest wait."""
    stable_after: float = 10.0
    """A connection that lasted this long makes the next wait the first again."""


class Backoff:
    """Exponential backoff with jitter: a wait is drawn from the upper half of its interval, so that clients that
    lost the same server do not come back at once.
    """

    def __init__(self, limits: BackoffLimits, seed: int) -> None:
        self._limits = limits
        self._attempts = 0
        self._connected_at: float | None = None
        self._random = random.Random(seed)

    def connected(self, now: float) -> None:
        """There is a connection since ``now``, in seconds of a clock that never goes back."""
        self._connected_at = now

    def next_wait(self, now: float) -> float:
        """The wait before the next attempt, in seconds."""
        if self._connected_at is not None and now - self._connected_at >= self._limits.stable_after:
            self._attempts = 0
        self._connected_at = None
        factor: int = 1 << min(self._attempts, 20)
        interval = min(self._limits.wait_min * factor, self._limits.wait_max)
        self._attempts += 1
        return interval * self._random.uniform(0.5, 1.0)
