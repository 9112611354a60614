"""What the state store answers, and what that means for each command."""

from __future__ import annotations

from dataclasses import dataclass

from . import resp
from .connection import Message
from .errors import MalformedReply, RefusedByStore, WrongStatus
from .hlc import Hlc

# Not met: in the form of the SDKs, and in that of the published text.
_NEGATIVE = (b":-1\r\n", b"-1\r\n")


@dataclass(frozen=True)
class Reply:
    """A reply that is no error."""

    payload: bytes
    version: Hlc | None


@dataclass(frozen=True)
class Stored:
    """The key was set."""

    version: Hlc
    """Of this write; the fencing token if the key is a lock."""


@dataclass(frozen=True)
class NotApplied:
    """The condition was not met; nothing changed."""

    version: Hlc | None
    """Of the value that the key has, if the server said."""


@dataclass(frozen=True)
class Entry:
    """A value with its version."""

    value: bytes
    version: Hlc


@dataclass(frozen=True)
class Deleted:
    """The key was deleted."""

    version: Hlc | None
    """Of the value that it had, if the server said."""


@dataclass(frozen=True)
class Missing:
    """There was no such key."""


@dataclass(frozen=True)
class OtherValue:
    """The key has another value than the one given to ``vdel``; nothing changed."""

    version: Hlc | None
    """Of the value that it has, if the server said."""


@dataclass(frozen=True)
class ValueSet:
    """A watched key has a new value."""

    value: bytes
    version: Hlc | None
    """Of this write."""


@dataclass(frozen=True)
class ValueDeleted:
    """A watched key was deleted, or it expired."""

    version: Hlc | None
    """Of the deletion."""


def read_reply(message: Message) -> Reply:
    """Raises ``StoreError`` if the store refused, or if the message is no reply."""
    status = message.user_property("__stat")
    if status not in (None, "200"):
        raise WrongStatus(str(status))
    if message.payload.startswith(b"-ERR"):
        # The published text draws a colon there in one place, and no CR LF in another.
        line = message.payload[len(b"-ERR") :].removesuffix(b"\r\n").removeprefix(b":").removeprefix(b" ")
        raise RefusedByStore(line.decode(errors="replace"))
    return Reply(message.payload, version_of(message))


def version_of(message: Message) -> Hlc | None:
    """``__ts`` of a reply or a notification."""
    text = message.user_property("__ts")
    try:
        return None if text is None else Hlc.parse(text)
    except ValueError:
        raise MalformedReply from None


def set_outcome(reply: Reply) -> Stored | NotApplied:
    if reply.payload == b"+OK\r\n" and reply.version is not None:
        return Stored(reply.version)
    if reply.payload in _NEGATIVE:
        return NotApplied(reply.version)
    raise MalformedReply


def entry(reply: Reply) -> Entry | None:
    if reply.payload == b"$-1\r\n":
        return None
    try:
        reader = resp.Reader(reply.payload)
        value = reader.bulk()
        reader.finish()
    except resp.Malformed:
        raise MalformedReply from None
    if reply.version is None:
        raise MalformedReply
    return Entry(value, reply.version)


def deletion(reply: Reply) -> Deleted | Missing | OtherValue:
    if reply.payload == b":1\r\n":
        return Deleted(reply.version)
    if reply.payload == b":0\r\n":
        return Missing()
    if reply.payload in _NEGATIVE:
        return OtherValue(reply.version)
    raise MalformedReply


def page(reply: Reply) -> tuple[list[bytes], bytes | None]:
    """Keys, and the token of the next page if there is one."""
    try:
        reader = resp.Reader(reply.payload)
        parts = reader.array()
        keys = [reader.bulk() for _ in range(reader.array())]
        token = reader.bulk() if parts == 2 else None
        reader.finish()
    except resp.Malformed:
        raise MalformedReply from None
    return keys, token


def registered(reply: Reply) -> None:
    if reply.payload != b"+OK\r\n":
        raise MalformedReply


def change(message: Message) -> ValueSet | ValueDeleted:
    """What a notification says, in either dialect."""
    try:
        reader = resp.Reader(message.payload)
        words = [reader.bulk() for _ in range(reader.array())]
        reader.finish()
    except resp.Malformed:
        raise MalformedReply from None
    match words:
        case [b"NOTIFY", b"SET", b"VALUE", value]:
            return ValueSet(value, version_of(message))
        case [b"NOTIFY", b"DELETE" | b"DEL"]:
            return ValueDeleted(version_of(message))
    raise MalformedReply
