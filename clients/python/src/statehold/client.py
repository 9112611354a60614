"""The handle of a connected client."""

from __future__ import annotations

from collections.abc import Callable

from .options import Options
from .session import ConnectionState, Session
from .state_store import StateStore


class Client:
    """A client of the state store, for the event loop in which it was connected.

    It connects again by itself when the connection is lost (``Options.reconnect``). Requests wait for that, until
    their timeout; watches go on, with a ``Gap`` for what could not be seen.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    async def connect(
        cls, options: Options | str, *, on_state_change: Callable[[ConnectionState], None] | None = None
    ) -> Client:
        """Connects, to ``options`` or to an address with default options.

        ``on_state_change`` is called with every state from the beginning. Cancelling gives up, and ends the client.

        Raises ``OptionsError`` if they cannot be used and ``ConnectError`` if the first attempt fails (with
        ``Reconnect.ALWAYS`` it waits instead).
        """
        session = Session(Options(options) if isinstance(options, str) else options)
        if on_state_change is not None:
            session.state_listeners.append(on_state_change)
        await session.start()
        return cls(session)

    @property
    def client_id(self) -> str:
        """What the client calls itself."""
        return self._session.client_id

    @property
    def state(self) -> ConnectionState:
        """What the connection is doing."""
        return self._session.state

    def on_state_change(self, listener: Callable[[ConnectionState], None]) -> None:
        """Calls ``listener`` in the event loop with every state from here on."""
        self._session.state_listeners.append(listener)

    def state_store(self) -> StateStore:
        """The state store of the server."""
        return StateStore(self._session)

    async def disconnect(self) -> None:
        """Ends the client: what is under way raises ``Ended``, watches end, and the server is told."""
        self._session.end()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()
