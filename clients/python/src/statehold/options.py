"""Where to connect to, and as whom."""

from __future__ import annotations

import ssl
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Literal
from urllib.parse import urlsplit

from .backoff import BackoffLimits
from .errors import OptionsError

# In base 16 it has to fit into the topic of notifications.
_CLIENT_ID_BYTES_MAX = 32_000
_STRING_BYTES_MAX = 65_535


class Reconnect(Enum):
    """When to connect again."""

    NEVER = "never"
    """The first loss ends the client."""
    AFTER_FIRST = "after_first"
    """If the first attempt succeeded."""
    ALWAYS = "always"
    """Also if the first attempt fails."""


@dataclass(frozen=True)
class Options:
    """Where to connect to, and as whom. Times are in seconds.

    >>> Options("broker.example:8883", tls=ssl.create_default_context(), client_id="pump-7").keep_alive
    30
    """

    address: str
    """``host:port``, ``unix:`` and the path of a Unix socket, or a URL ``ws://host:port/path`` (``wss://``)."""
    _: KW_ONLY
    client_id: str | None = None
    """What the client calls itself; drawn at random if it is ``None``. Not empty, without ``+`` and ``#``, 32,000
    bytes at most. Two clients with one id end each other's connections, and a session that waits for that id at
    the server is ended."""
    username: str | None = None
    password: str | bytes | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    """With TLS, as this context says; for ``wss://`` the system's if it is ``None``."""
    keep_alive: int = 30
    """How often something is sent at least, 1 to 65,535; a server that does not answer is gone."""
    timeout: float = 10.0
    """How long a request may take, reconnects included."""
    connect_timeout: float = 10.0
    """From opening the connection to the server's CONNACK."""
    reconnect: Reconnect = Reconnect.AFTER_FIRST
    backoff: BackoffLimits = field(default_factory=BackoffLimits)
    """Waits between attempts to connect."""
    operations_max: int = 4096
    """How many requests may be under way; one more raises ``QueueFull``."""
    watches_max: int = 65_536
    """How many watches there may be; one more raises ``QueueFull``."""
    watch_capacity: int = 1024
    """How many changes wait for the reader of a watch. When one more comes they are dropped, and a ``Gap`` takes
    their place."""

    def __post_init__(self) -> None:
        Address.parse(self.address)
        if self.client_id is not None:
            is_too_long = len(self.client_id.encode()) > _CLIENT_ID_BYTES_MAX
            if not self.client_id or is_too_long or any(char in self.client_id for char in "+#\0"):
                raise OptionsError("the client id is empty, longer than 32,000 bytes, or has +, # or U+0000")
        if self.username is not None and ("\0" in self.username or _is_too_long(self.username)):
            raise OptionsError("the user name is longer than 65,535 bytes, or has U+0000")
        if self.password is not None and _is_too_long(self.password):
            raise OptionsError("the password is longer than 65,535 bytes")
        if not 1 <= self.keep_alive <= 65_535:
            raise OptionsError(f"the keep alive is {self.keep_alive} s: give 1 to 65,535")
        for name in ("timeout", "connect_timeout", "operations_max", "watches_max", "watch_capacity"):
            if getattr(self, name) <= 0:
                raise OptionsError(f"{name} has to be greater than 0")


@dataclass(frozen=True)
class Address:
    """An address in its parts, as paho-mqtt wants them."""

    transport: Literal["tcp", "unix", "websockets"]
    host: str
    port: int
    path: str = ""
    needs_tls: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ``OptionsError`` if the text is no address."""
        if text.startswith("unix:") and len(text) > len("unix:"):
            # paho-mqtt wants a port, and does not use it.
            return cls("unix", text[len("unix:") :], 1883)
        url = text if "://" in text else f"tcp://{text}"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            port = None
        if port is None or not parts.hostname or parts.scheme not in ("tcp", "ws", "wss"):
            raise OptionsError(f"{text!r} is not host:port, unix:path, ws://host:port or wss://host:port")
        if parts.scheme == "tcp":
            return cls("tcp", parts.hostname, port)
        return cls("websockets", parts.hostname, port, parts.path or "/mqtt", parts.scheme == "wss")


def _is_too_long(text: str | bytes) -> bool:
    return len(text.encode() if isinstance(text, str) else text) > _STRING_BYTES_MAX
