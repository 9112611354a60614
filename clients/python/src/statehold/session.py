"""What outlives a connection: requests that wait for their replies, and watched keys.

A session connects, and connects again when the connection is lost. The server forgets a client with its
connection; on the next one the session subscribes again, sends every request that has no reply yet once more, and
registers its keys. A request that comes again has the same correlation data, so the store answers it from memory
if it was executed, and does not execute it twice.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from . import resp
from .backoff import Backoff
from .connection import Connection, Limits, Message
from .errors import (
    ConnectError,
    Ended,
    Loss,
    LossKind,
    OperationError,
    QueueFull,
    Refused,
    StoreError,
    TimedOut,
    TooLarge,
)
from .hlc import Hlc, HlcClock
from .options import Options, Reconnect
from .replies import Reply, read_reply
from .topics import INVOKE_TOPIC, notification_filter, notified_key, response_topic
from .watched_keys import WatchedKeys


@dataclass(frozen=True)
class Connecting:
    """A connection is being made."""


@dataclass(frozen=True)
class Connected:
    """There is a connection; requests are sent."""


@dataclass(frozen=True)
class Waiting:
    """There is no connection; another attempt follows after ``wait`` seconds."""

    wait: float
    loss: Loss


@dataclass(frozen=True)
class HasEnded:
    """Nothing will be sent any more."""

    loss: Loss


ConnectionState = Connecting | Connected | Waiting | HasEnded


@dataclass
class _Pending:
    """A request that has no reply yet."""

    message: Message
    until: float
    reply: asyncio.Future[Reply]
    is_registration: bool


class Session:
    """One client of the state store. Everything runs in the event loop in which it was made."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.seed = secrets.randbits(64)
        self.client_id = options.client_id or f"statehold-{self.seed:016x}"
        self.state: ConnectionState = Connecting()
        self.state_listeners: list[Callable[[ConnectionState], None]] = []
        self.watched = WatchedKeys(self, options.watches_max, options.watch_capacity)
        self._clock = HlcClock(self.client_id)
        self._backoff = Backoff(options.backoff, self.seed)
        self._response_topic = response_topic(self.client_id)
        self._notification_filter = notification_filter(self.client_id)
        self._pending: dict[int, _Pending] = {}
        self._last_number = 0
        self._connection: Connection | None = None
        self._limits: Limits | None = None
        self._is_notified = False
        self._has_been_up = False
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._run_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when there is a connection. Raises ``ConnectError`` if there will be none."""
        self._run_task = asyncio.create_task(self._run())
        try:
            await self._decided
        except BaseException:
            self.end()
            raise
        if isinstance(self.state, HasEnded):
            raise ConnectError(self.options.address, self.state.loss)

    def end(self) -> None:
        """Ends the session, if it has not ended: what is under way fails, and the server is told."""
        if isinstance(self.state, HasEnded):
            return
        if self._run_task is not None:
            self._run_task.cancel()
        self._end_with(Loss(LossKind.REQUESTED))

    def next_number(self) -> int:
        """Differs from call to call."""
        self._last_number += 1
        return self._last_number

    async def request(
        self,
        words: Sequence[bytes],
        timeout: float,
        *,
        fencing: Hlc | None = None,
        is_registration: bool = False,
    ) -> Reply:
        """Asks the state store, across reconnects. A registration ends with its connection instead."""
        if isinstance(self.state, HasEnded):
            raise Ended(self.state.loss)
        if len(self._pending) >= self.options.operations_max:
            raise QueueFull(self.options.operations_max, "operations_max")
        number = self.next_number()
        loop = asyncio.get_running_loop()
        pending = _Pending(
            self._message(number, words, fencing),
            loop.time() + timeout,
            loop.create_future(),
            is_registration,
        )
        self._pending[number] = pending
        try:
            self._send(number, pending)
            return await asyncio.wait_for(pending.reply, timeout)
        except asyncio.TimeoutError:
            raise TimedOut(timeout) from None
        finally:
            del self._pending[number]

    # The connection, from one to the next.

    async def _run(self) -> None:
        while True:
            loss = await self._connect_once()
            never_up = not self._has_been_up and self.options.reconnect is not Reconnect.ALWAYS
            if loss.is_final or never_up or self.options.reconnect is Reconnect.NEVER:
                return self._end_with(loss)
            wait = self._backoff.next_wait(asyncio.get_running_loop().time())
            self._set_state(Waiting(wait, loss))
            await asyncio.sleep(wait)

    async def _connect_once(self) -> Loss:
        """Returns when the connection is lost, or was not made."""
        self._set_state(Connecting())
        connection = self._connection = Connection(self.options, self.client_id, self)
        decided = (connection.opened, connection.lost)
        await asyncio.wait(decided, timeout=self.options.connect_timeout, return_when=asyncio.FIRST_COMPLETED)
        if connection.opened.done():
            self._up(connection.opened.result())
            await connection.lost
        elif not connection.lost.done():
            connection.close()
            self._connection = None
            return Loss(LossKind.CONNECT_TIMEOUT)
        self._down()
        return connection.lost.result()

    def _up(self, limits: Limits) -> None:
        self._limits = limits
        self._has_been_up = True
        self._backoff.connected(asyncio.get_running_loop().time())
        if self._connection is not None:
            self._connection.subscribe(self._response_topic)
        for number, pending in self._pending.items():
            self._send(number, pending)
        self.watched.connected()
        self._set_state(Connected())

    def _down(self) -> None:
        self._connection = self._limits = None
        self._is_notified = False
        self.watched.connection_lost()

    def _end_with(self, loss: Loss) -> None:
        connection = self._connection
        self._down()
        if connection is not None:
            connection.close()
        for pending in self._pending.values():
            _fail(pending, Ended(loss))
        self.watched.end(Ended(loss))
        self._set_state(HasEnded(loss))

    def _set_state(self, state: ConnectionState) -> None:
        self.state = state
        if isinstance(state, Connected | HasEnded) and not self._decided.done():
            self._decided.set_result(None)
        for listener in list(self.state_listeners):
            listener(state)

    # Requests.

    def _message(self, number: int, words: Sequence[bytes], fencing: Hlc | None) -> Message:
        timestamp = self._clock.now(time.time_ns() // 1_000_000)
        properties = [("__ts", str(timestamp)), ("__protVer", "1.0")]
        if fencing is not None:
            properties.append(("__ft", str(fencing)))
        return Message(
            INVOKE_TOPIC,
            resp.encode(words),
            tuple(properties),
            # The first half tells this client from others that had its id.
            struct.pack(">QQ", self.seed, number),
            self._response_topic,
        )

    def _send(self, number: int, pending: _Pending) -> None:
        """Sends a request, if there is a connection; otherwise it is sent when there is one."""
        if self._connection is None or self._limits is None or pending.reply.done():
            return
        if (size := pending.message.size()) > self._limits.packet_size_max:
            _fail(pending, TooLarge(size, self._limits.packet_size_max))
            return
        remaining = pending.until - asyncio.get_running_loop().time()
        if pending.is_registration and not self._is_notified:
            self._is_notified = True
            self._connection.subscribe(self._notification_filter)
        # Not executed when nobody waits for it any more.
        message = replace(pending.message, expiry=max(1, math.ceil(remaining)))
        self._connection.publish(number, message)

    # What the connection reports.

    def received(self, message: Message) -> None:
        if message.topic == self._response_topic:
            self._replied(message)
        elif (key := notified_key(message.topic, self.client_id)) is not None:
            self.watched.notified(key, message)

    def refused(self, number: int, reason: int, explanation: str) -> None:
        if (pending := self._pending.get(number)) is not None:
            _fail(pending, Refused(reason, explanation))

    def not_subscribed(self, topic_filter: str, reason: int) -> None:
        # The store hands notifications to the client that registered, subscribed or not.
        if topic_filter == self._response_topic:
            for pending in self._pending.values():
                _fail(pending, Refused(reason, f"may not subscribe to {topic_filter}"))

    def _replied(self, message: Message) -> None:
        try:
            seed, number = struct.unpack(">QQ", message.correlation_data)
        except struct.error:
            return
        pending = self._pending.get(number)
        if pending is None or seed != self.seed or pending.reply.done():
            return
        try:
            pending.reply.set_result(read_reply(message))
        except StoreError as error:
            pending.reply.set_exception(error)


def _fail(pending: _Pending, error: OperationError) -> None:
    if not pending.reply.done():
        pending.reply.set_exception(error)
