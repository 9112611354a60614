"""One MQTT connection on paho-mqtt: from opening it to its loss, and never again.

The only module that knows paho-mqtt. paho-mqtt has a thread for the socket; whatever it reports is handed to the
event loop, so everything else runs there. Nothing of a session is kept from one connection to the next: what has
to be said again, the session says again.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from .errors import Loss, LossKind
from .options import Address, Options

# What MQTT says if CONNACK does not.
_RECEIVE_MAXIMUM = 65_535
_PACKET_SIZE_MAX = 268_435_460


@dataclass(frozen=True)
class Limits:
    """What the server takes."""

    packet_size_max: int
    """In bytes."""


@dataclass(frozen=True)
class Message:
    """A message, in or out. Always QoS 1."""

    topic: str
    payload: bytes
    user_properties: tuple[tuple[str, str], ...] = ()
    correlation_data: bytes = b""
    response_topic: str = ""
    expiry: int = 0
    """Message Expiry Interval in seconds; only of messages to the server."""

    def size(self) -> int:
        """How many bytes the PUBLISH packet has at most."""
        fixed_header, packet_id, property_length = 5, 2, 4
        texts = [self.topic, self.response_topic, *(text for pair in self.user_properties for text in pair)]
        strings = sum(2 + len(text.encode()) for text in texts) + 2 + len(self.correlation_data)
        identifiers = 3 + len(self.user_properties) + 4
        return fixed_header + packet_id + property_length + strings + identifiers + len(self.payload)

    def user_property(self, name: str) -> str | None:
        """The first of that name."""
        return next((value for key, value in self.user_properties if key == name), None)


class Listener(Protocol):
    """Who hears of what happens on a connection, in the event loop."""

    def received(self, message: Message) -> None:
        """A message came."""

    def refused(self, number: int, reason: int, explanation: str) -> None:
        """The server's PUBACK said no to the message of this number."""

    def not_subscribed(self, topic_filter: str, reason: int) -> None:
        """The server's SUBACK said no."""


class Connection:
    """Opens at once; ``opened`` or ``lost`` says how that went."""

    def __init__(self, options: Options, client_id: str, listener: Listener) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._filters: dict[int, str] = {}
        # Messages that wait for the server's window, and by packet id those that are not acknowledged.
        self._waiting: deque[tuple[int, Message]] = deque()
        self._inflight: dict[int, int] = {}
        self._window = _RECEIVE_MAXIMUM
        self._is_closed = False
        self.opened: asyncio.Future[Limits] = self._loop.create_future()
        self.lost: asyncio.Future[Loss] = self._loop.create_future()
        self._paho = self._client(options, client_id)
        address = Address.parse(options.address)
        # Names are looked up and sockets are opened in a way that blocks.
        open_ = threading.Thread(target=self._open, args=(address, options.keep_alive), daemon=True)
        open_.start()

    def publish(self, number: int, message: Message) -> None:
        """Sends a message as soon as the server's Receive Maximum allows it. ``number`` names it.

        One that is not acknowledged is lost with the connection.
        """
        self._waiting.append((number, message))
        self._publish_waiting()

    def _publish_waiting(self) -> None:
        while self._waiting and len(self._inflight) < self._window:
            number, message = self._waiting.popleft()
            self._inflight[self._publish(message)] = number

    def _publish(self, message: Message) -> int:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic = message.response_topic
        properties.CorrelationData = message.correlation_data
        properties.MessageExpiryInterval = message.expiry
        properties.UserProperty = list(message.user_properties)
        return self._paho.publish(message.topic, message.payload, qos=1, properties=properties).mid

    def subscribe(self, topic_filter: str) -> None:
        """Subscribes to a topic that only this client uses."""
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
        _, packet_id = self._paho.subscribe(topic_filter, options=options)
        if packet_id is not None:
            self._filters[packet_id] = topic_filter

    def close(self) -> None:
        """Says goodbye, and reports nothing any more but ``lost``."""
        self._is_closed = True
        self._paho.disconnect()
        self._lose(Loss(LossKind.REQUESTED))

    def _client(self, options: Options, client_id: str) -> paho.Client:
        address = Address.parse(options.address)
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            transport=address.transport,
            reconnect_on_failure=False,
        )
        client.connect_timeout = options.connect_timeout
        if options.username is not None or options.password is not None:
            # The password of paho-mqtt is bytes as well, which its types do not say.
            password: Any = options.password
            client.username_pw_set(options.username or "", password)
        if options.tls is not None or address.needs_tls:
            client.tls_set_context(options.tls or ssl.create_default_context())
        if address.transport == "websockets":
            client.ws_set_options(path=address.path)
        # paho-mqtt has no window that can be the server's.
        client.max_inflight_messages_set(0)
        client.max_queued_messages_set(0)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        return client

    # In threads of their own, the callbacks of paho-mqtt in its thread.

    def _open(self, address: Address, keep_alive: int) -> None:
        try:
            self._paho.connect(address.host, address.port, keep_alive, clean_start=True)
        except (OSError, ValueError) as error:
            self._post(self._lose, Loss(LossKind.TRANSPORT, str(error)))
            return
        self._paho.loop_start()
        if self._is_closed:
            self._paho.disconnect()

    def _on_connect(
        self, _client: paho.Client, _: object, _flags: object, code: ReasonCode, properties: Properties | None
    ) -> None:
        if code.is_failure:
            loss = Loss(LossKind.REFUSED, _explanation(code, properties), code.value)
            self._post(self._lose, loss)
            return
        window = getattr(properties, "ReceiveMaximum", _RECEIVE_MAXIMUM)
        self._post(self._end_opening, window, Limits(getattr(properties, "MaximumPacketSize", _PACKET_SIZE_MAX)))

    def _on_disconnect(
        self,
        _client: paho.Client,
        _: object,
        flags: paho.DisconnectFlags,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            loss = Loss(LossKind.DISCONNECTED, _explanation(code, properties), code.value)
        else:
            loss = Loss(LossKind.TRANSPORT, str(code))
        self._post(self._lose, loss)

    def _on_message(self, _client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
        properties = message.properties
        received = Message(
            message.topic,
            message.payload,
            tuple(getattr(properties, "UserProperty", ())),
            getattr(properties, "CorrelationData", b""),
        )
        self._post(self._listener.received, received)

    def _on_publish(
        self, _client: paho.Client, _: object, packet_id: int, code: ReasonCode, properties: Properties
    ) -> None:
        refusal = (code.value, _explanation(code, properties)) if code.is_failure else None
        self._post(self._acknowledged, packet_id, refusal)

    def _on_subscribe(
        self, _client: paho.Client, _: object, packet_id: int, codes: list[ReasonCode], _properties: object
    ) -> None:
        for code in codes:
            if code.is_failure:
                self._post(self._refuse_filter, packet_id, code.value)

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        """Calls a function in the event loop."""
        try:
            self._loop.call_soon_threadsafe(self._unless_closed, function, arguments)
        except RuntimeError:
            # The loop is closed: nobody waits for anything any more.
            self._paho.disconnect()

    # In the event loop.

    def _unless_closed(self, function: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if not self._is_closed:
            function(*arguments)

    def _end_opening(self, window: int, limits: Limits) -> None:
        self._window = window
        if not self.opened.done():
            self.opened.set_result(limits)

    def _acknowledged(self, packet_id: int, refusal: tuple[int, str] | None) -> None:
        number = self._inflight.pop(packet_id, None)
        if number is not None and refusal is not None:
            self._listener.refused(number, *refusal)
        self._publish_waiting()

    def _lose(self, loss: Loss) -> None:
        self._is_closed = True
        if not self.lost.done():
            self.lost.set_result(loss)

    def _refuse_filter(self, packet_id: int, reason: int) -> None:
        topic_filter = self._filters.pop(packet_id, None)
        if topic_filter is not None:
            self._listener.not_subscribed(topic_filter, reason)


def _explanation(code: ReasonCode, properties: Properties | None) -> str:
    """The server's words, else the name of the code."""
    return str(getattr(properties, "ReasonString", None) or code)
