"""RESP as the state store speaks it: arrays of bulk strings out, and strict reading of what comes back."""

from __future__ import annotations

from collections.abc import Sequence

_CRLF = b"\r\n"


class Malformed(Exception):
    """The bytes are not what they have to be."""


def encode(words: Sequence[bytes]) -> bytes:
    """An array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += [b"$%d\r\n" % len(word), word, _CRLF]
    return b"".join(parts)


class Reader:
    """Reads from the front; every method raises ``Malformed`` if something else is there."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def bulk(self) -> bytes:
        """A bulk string."""
        length = self._number(b"$")
        end = self._at + length
        if self._payload[end : end + 2] != _CRLF:
            raise Malformed
        word = self._payload[self._at : end]
        self._at = end + 2
        return word

    def array(self) -> int:
        """The head of an array: how many elements follow."""
        return self._number(b"*")

    def finish(self) -> None:
        """There must be nothing more."""
        if self._at != len(self._payload):
            raise Malformed

    def _number(self, kind: bytes) -> int:
        end = self._payload.find(_CRLF, self._at)
        if end < 0 or not self._payload.startswith(kind, self._at):
            raise Malformed
        digits = self._payload[self._at + 1 : end]
        # A payload has at most 268,435,455 bytes: a longer number is none of a length.
        if not digits.isdigit() or len(digits) > 9:
            raise Malformed
        self._at = end + 2
        return int(digits)
