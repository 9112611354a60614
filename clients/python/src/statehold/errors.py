"""What can go wrong, sorted by what a caller can do about it.

::

    StateholdError
      OptionsError                     the options cannot be used
      ConnectError                     there is no connection
      StoreError                       a request had no effect, or an unknown one
        RefusedByStore                 the state store said no; nothing changed
        OperationError                 the request or its reply did not get through
          QueueFull, TooLarge            nothing was sent
          TimedOut, Ended                it is unknown whether it was executed
          Refused                        the MQTT server said no; nothing changed
          MalformedReply, WrongStatus    the server speaks something else
      NotInTime                        the lock was not free in time
"""

from __future__ import annotations

from enum import Enum


class StateholdError(Exception):
    """Every error of this package is one."""


class OptionsError(StateholdError, ValueError):
    """Options that cannot be used; nothing was connected."""


class StoreError(StateholdError):
    """A request to the state store had no effect, or an unknown one."""


class OperationError(StoreError):
    """The request did not get through, or its reply did not come back."""


class LossKind(Enum):
    """How a connection ended or was not made."""

    REQUESTED = "disconnected as asked"
    TRANSPORT = "the connection failed or was closed by the other side"
    CONNECT_TIMEOUT = "no answer to CONNECT in time"
    REFUSED = "the server refused the connection"
    DISCONNECTED = "the server ended the connection"


class Loss:
    """Why a connection ended or was not made."""

    def __init__(self, kind: LossKind, detail: str = "", reason: int | None = None) -> None:
        self.kind = kind
        self.detail = detail
        """More about it, for people: an error of the system, or the server's words."""
        self.reason = reason
        """The reason code of CONNACK or DISCONNECT, 0x80 to 0xFF, if there was one."""

    SESSION_TAKEN_OVER = 0x8E

    @property
    def is_final(self) -> bool:
        """Whether not to connect again.

        After a takeover another client goes on with this client id: coming back would end its connection.
        """
        is_taken_over = self.reason == self.SESSION_TAKEN_OVER and self.kind is LossKind.DISCONNECTED
        return self.kind is LossKind.REQUESTED or is_taken_over

    def __str__(self) -> str:
        code = "" if self.reason is None else f" (0x{self.reason:02X})"
        advice = "; give each client an id of its own" if self.reason == self.SESSION_TAKEN_OVER else ""
        return f"{self.kind.value}{code}{': ' if self.detail else ''}{self.detail}{advice}"

    def __repr__(self) -> str:
        return f"Loss({str(self)!r})"


class ConnectError(StateholdError):
    """There is no connection. ``loss`` says why."""

    def __init__(self, address: str, loss: Loss) -> None:
        super().__init__(f"cannot connect to {address}: {loss}")
        self.address = address
        self.loss = loss


class ErrorText(Enum):
    """Why the state store refuses requests, in its words."""

    TIMESTAMP_AHEAD = (
        "the request timestamp is too far in the future; "
        "ensure that the client and broker system clocks are synchronized"
    )
    FENCING_TOKEN_REQUIRED = "a fencing token is required for this request"
    FENCING_TOKEN_AHEAD = (
        "the request fencing token timestamp is too far in the future; "
        "ensure that the client and broker system clocks are synchronized"
    )
    FENCING_TOKEN_LOWER = (
        "the request fencing token is a lower version than the fencing token protecting the resource"
    )
    QUOTA_EXCEEDED = "the quota has been exceeded"
    SYNTAX = "syntax error"
    UNKNOWN_COMMAND = "unknown command"
    WRONG_ARGUMENTS = "wrong number of arguments"
    NOT_AUTHORIZED = "not authorized"
    MISSING_TIMESTAMP = "missing timestamp"
    MALFORMED_TIMESTAMP = "malformed timestamp"
    KEY_LENGTH_ZERO = "the key length is zero"
    UNAVAILABLE = "the state store is unavailable"
    KEY_TOO_LONG_TO_WATCH = "the key is too long to be watched"


_ADVICE = {
    ErrorText.FENCING_TOKEN_REQUIRED: "the key is protected: pass the token of the lock as `fencing`",
    ErrorText.FENCING_TOKEN_LOWER: "another holder wrote since: stop, and acquire the lock again",
    ErrorText.UNAVAILABLE: "no majority of the nodes is there: ask again in a moment",
    ErrorText.NOT_AUTHORIZED: "the listener's policy has no rule that lets this client do so",
}


class RefusedByStore(StoreError):
    """The state store said no; nothing changed."""

    def __init__(self, text: str) -> None:
        self.text = text
        """The server's words."""
        self.reason: ErrorText | None = _BY_TEXT.get(text)
        """``None`` if this version has no name for it."""
        advice = _ADVICE.get(self.reason) if self.reason else None
        super().__init__(f"the state store refused the request: {text}{f' ({advice})' if advice else ''}")


# The protocol's published text has one word otherwise than what its clients know.
_BY_TEXT = {error.value: error for error in ErrorText} | {
    ErrorText.FENCING_TOKEN_LOWER.value.replace("than", "that"): ErrorText.FENCING_TOKEN_LOWER
}


class QueueFull(OperationError):
    """As many as allowed are under way or watched; nothing was sent."""

    def __init__(self, limit: int, option: str) -> None:
        super().__init__(f"there are {limit} already, as many as the option {option} allows")
        self.limit = limit


class TooLarge(OperationError):
    """Larger than the server takes; nothing was sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the request has {size} bytes, the server takes {limit}: store smaller values")
        self.size = size
        self.limit = limit


class TimedOut(OperationError):
    """No answer in time. Whether the server executed the request is unknown."""

    def __init__(self, timeout: float) -> None:
        super().__init__(
            f"no answer within {timeout:g} s; if it was a write, it is unknown whether it was executed: "
            "read the key"
        )
        self.timeout = timeout
        """In seconds."""


class Ended(OperationError):
    """The client has ended. Whether the server executed the request is unknown."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(f"the client has ended: {loss}")
        self.loss = loss


class Refused(OperationError):
    """The MQTT server said no; nothing changed."""

    def __init__(self, reason: int, explanation: str = "") -> None:
        super().__init__(f"refused by the server: 0x{reason:02X}{' ' if explanation else ''}{explanation}")
        self.reason = reason
        """The reason code of PUBACK or SUBACK, 0x80 to 0xFF."""
        self.explanation = explanation


class MalformedReply(OperationError):
    """The reply is not one of the state store protocol."""

    def __init__(self) -> None:
        super().__init__("the reply is not one of the state store protocol: is this a server that speaks it?")


class WrongStatus(OperationError):
    """The state store speaks another version of the protocol (``__stat`` other than 200)."""

    def __init__(self, status: str) -> None:
        super().__init__(f"the state store answered with status {status}: it speaks another version")
        self.status = status


class NotInTime(StateholdError):
    """Another had the lock all the time."""

    def __init__(self) -> None:
        super().__init__("the lock was not free in time")


def is_passing(error: StateholdError) -> bool:
    """Whether the same request may go well in a moment."""
    if isinstance(error, RefusedByStore):
        return error.reason is ErrorText.UNAVAILABLE
    return isinstance(error, TimedOut | QueueFull)
