"""Getting, keeping and losing a lock: a key that is set to the holder's name with a lease, and renewed.

The rule: a contender believes that it holds the lock for less time than the store does. It counts the lease from
before the request was sent and stops believing a twentieth of it early, so that clocks that do not run alike do
not make two holders. What must not happen even so, when a process sleeps, is for the fencing token to prevent.

No I/O, no clock: ``step(now, event)`` and ``deadline()``, with times in seconds of a clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from .hlc import Hlc


class Event(Enum):
    """What happens to a contender, besides the answer to ``Set`` (``Answered``)."""

    START = auto()
    WATCHING = auto()
    """The key is watched, as ``Watch`` asked."""
    FREED = auto()
    """The key was deleted, or it could have been without notice."""
    RELEASE = auto()
    """The caller does not want the lock any more."""
    DELETED = auto()
    """``Delete`` was answered, whatever it was."""
    TIMEOUT = auto()
    """The deadline has come."""


class Answer(Enum):
    """How a SET of the lock's key ended, if it was not stored."""

    REFUSED = auto()
    """Somebody else has it."""
    UNKNOWN = auto()
    """No answer, or the store cannot answer at the moment; it may have been stored."""


@dataclass(frozen=True)
class Answered:
    """The answer to ``Set``: the fencing token if it was stored."""

    answer: Hlc | Answer


class Lost(Enum):
    """How a lock was lost."""

    EXPIRED = "the lease could not be renewed in time"
    TAKEN_OVER = "somebody else holds the lock"
    RELEASED = "it was released"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Set:
    """Set the key to the holder's name if it is missing or ours, with the lease."""

    timeout: float
    """After so many seconds the answer is ``Answer.UNKNOWN``."""


class Action(Enum):
    """What the driver of a contender has to do, besides ``Set``, ``Held`` and ``Lost``.

    A new request may begin before the last one has ended, whose answer is then not to be reported.
    """

    WATCH = auto()
    UNWATCH = auto()
    DELETE = auto()
    """Delete the key if it is ours."""
    END = auto()
    """Nothing will happen any more."""


@dataclass(frozen=True)
class Held:
    """The lock is held, or was renewed."""

    token: Hlc
    until: float
    """Until then, unless it is renewed."""


class _State(Enum):
    """
    ::

        IDLE -> ASKING -> HELD <-> RENEWING -> ENDED
                |    ^
                v    |
          REGISTERING -> ASKING ... WAITING -> ASKING
        any -> RELEASING -> ENDED
    """

    IDLE = auto()
    ASKING = auto()
    REGISTERING = auto()
    WAITING = auto()
    HELD = auto()
    RENEWING = auto()
    RELEASING = auto()
    ENDED = auto()


class Contender:
    """One who wants, holds or has held a lock."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._state = _State.IDLE
        self._is_watching = False
        # Since SET is under way, what it may be refused for has ended.
        self._is_freed = False
        self._sent_at = 0.0
        # Of a lock that is held, or of a wait.
        self._until = 0.0
        self._renew_at = 0.0

    def step(self, now: float, event: Event | Answered) -> list[Set | Held | Lost | Action]:
        """Takes an event in; returns what has to be done, in this order."""
        match self._state, event:
            case (_State.ENDED, _) | (_State.RELEASING, Event.RELEASE):
                return []
            case _State.IDLE, Event.RELEASE:
                return self._end()
            case _, Event.RELEASE:
                self._state = _State.RELEASING
                return [*self._unwatch(), Action.DELETE]
            case (_State.IDLE, Event.START) | (_State.REGISTERING, Event.WATCHING):
                # What was deleted before the watch began was not reported.
                return self._ask(now)
            case _State.ASKING, Answered(answer):
                return self._asked(now, answer)
            case _State.ASKING, Event.FREED:
                self._is_freed = True
            case _State.WAITING, Event.FREED:
                return self._ask(now)
            case _State.RENEWING, Answered(answer):
                return self._renewed(now, answer)
            case _State.RELEASING, Event.DELETED:
                return self._end()
            case _, Event.TIMEOUT:
                return self._timed_out(now)
        # Late answers and repeated notifications.
        return []

    def deadline(self) -> float | None:
        """When the driver must next call ``step`` with ``Event.TIMEOUT``."""
        match self._state:
            case _State.WAITING | _State.RENEWING:
                return self._until
            case _State.HELD:
                return min(self._until, self._renew_at)
        return None

    def _ask(self, now: float) -> list[Set | Held | Lost | Action]:
        self._state, self._sent_at, self._is_freed = _State.ASKING, now, False
        return [Set(self._lease)]

    def _asked(self, now: float, answer: Hlc | Answer) -> list[Set | Held | Lost | Action]:
        if isinstance(answer, Hlc):
            # An answer so late that the lease is over by now is worth nothing.
            if self._believed_until() <= now:
                return self._ask(now)
            return [*self._unwatch(), self._hold(answer)]
        if answer is Answer.UNKNOWN:
            self._state, self._until = _State.WAITING, now + self._pause()
            return []
        if not self._is_watching:
            self._is_watching, self._state = True, _State.REGISTERING
            return [Action.WATCH]
        if self._is_freed:
            return self._ask(now)
        # A notification could be lost with a server: look again after what the holder may have left.
        self._state, self._until = _State.WAITING, now + self._lease
        return []

    def _renewed(self, now: float, answer: Hlc | Answer) -> list[Set | Held | Lost | Action]:
        if isinstance(answer, Hlc):
            return [self._hold(answer)]
        if answer is Answer.REFUSED:
            return [Lost.TAKEN_OVER, *self._end()]
        self._state, self._renew_at = _State.HELD, now + self._pause()
        return []

    def _timed_out(self, now: float) -> list[Set | Held | Lost | Action]:
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return []
        if self._state is _State.WAITING:
            return self._ask(now)
        if self._until <= now:
            # A renewal may still arrive: it must not hold the lock for nobody.
            self._state = _State.RELEASING
            return [Lost.EXPIRED, Action.DELETE]
        self._state, self._sent_at = _State.RENEWING, now
        return [Set(self._until - now)]

    def _hold(self, token: Hlc) -> Held:
        self._state, self._until = _State.HELD, self._believed_until()
        self._renew_at = self._sent_at + self._lease / 3
        return Held(token, self._until)

    def _unwatch(self) -> list[Set | Held | Lost | Action]:
        was_watching, self._is_watching = self._is_watching, False
        return [Action.UNWATCH] if was_watching else []

    def _end(self) -> list[Set | Held | Lost | Action]:
        self._state = _State.ENDED
        return [Action.END]

    def _believed_until(self) -> float:
        return self._sent_at + self._lease - self._lease / 20

    def _pause(self) -> float:
        """Before another attempt at a store that gave no answer."""
        return min(self._lease / 10, 1.0)
