"""What a session says on a connection, and says again on the next one. The connection is the test's."""

import asyncio
import unittest
from unittest.mock import patch

from statehold import (
    BackoffLimits,
    Connected,
    Gap,
    Hlc,
    Loss,
    LossKind,
    MalformedReply,
    Options,
    Reconnect,
    Refused,
    WrongStatus,
)
from statehold.connection import Limits, Listener, Message
from statehold.session import Session
from statehold.topics import notification_filter, response_topic

OK = b"+OK\r\n"
VERSION = "5:1:StateStore"
ANSWERS = response_topic("pump")
NOTIFICATIONS = notification_filter("pump")


class FakeConnection:
    """Is open at once, and keeps what is sent."""

    def __init__(self, _options: Options, _client_id: str, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        self.listener = listener
        self.filters: list[str] = []
        self.sent: list[tuple[int, Message]] = []
        self.opened: asyncio.Future[Limits] = loop.create_future()
        self.lost: asyncio.Future[Loss] = loop.create_future()
        self.opened.set_result(Limits(packet_size_max=1000))
        connections.append(self)

    def publish(self, number: int, message: Message) -> None:
        self.sent.append((number, message))

    def subscribe(self, topic_filter: str) -> None:
        self.filters.append(topic_filter)

    def close(self) -> None:
        if not self.lost.done():
            self.lost.set_result(Loss(LossKind.REQUESTED))

    def answer(self, request: Message, payload: bytes, *properties: tuple[str, str]) -> None:
        self.listener.received(Message(ANSWERS, payload, properties, request.correlation_data))

    def payloads(self) -> list[bytes]:
        return [message.payload for _, message in self.sent]


connections: list[FakeConnection] = []


async def turns() -> None:
    """Until nothing is left to do but wait."""
    for _ in range(20):
        await asyncio.sleep(0)


class Sessions(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        connections.clear()
        patcher = patch("statehold.session.Connection", FakeConnection)
        patcher.start()
        self.addCleanup(patcher.stop)
        backoff = BackoffLimits(wait_min=0, wait_max=0)
        self.session = Session(Options("a:1", client_id="pump", backoff=backoff, reconnect=Reconnect.ALWAYS))
        await self.session.start()
        self.addCleanup(self.session.end)

    async def ask(self) -> tuple[asyncio.Task[object], Message]:
        asked: asyncio.Task[object] = asyncio.create_task(self.session.request([b"GET", b"k"], 4.5))
        await turns()
        return asked, connections[-1].sent[-1][1]

    async def reconnect(self) -> FakeConnection:
        is_back = asyncio.Event()
        self.session.state_listeners = [lambda state: is_back.set() if state == Connected() else None]
        connections[-1].lost.set_result(Loss(LossKind.TRANSPORT))
        await asyncio.wait_for(is_back.wait(), 20)
        return connections[-1]

    async def test_a_request_is_what_the_protocol_says(self) -> None:
        asked, message = await self.ask()
        self.assertEqual(connections[0].filters, [ANSWERS])
        self.assertEqual(message.payload, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        self.assertEqual((message.response_topic, message.expiry), (ANSWERS, 5))
        self.assertEqual(message.user_property("__protVer"), "1.0")
        self.assertEqual(Hlc.parse(message.user_property("__ts") or "").node, "pump")
        self.assertIsNone(message.user_property("__ft"))
        asked.cancel()

    async def test_replies_find_their_requests_in_any_order_and_only_once(self) -> None:
        (first, one), (second, other) = await self.ask(), await self.ask()
        for message, payload in ((other, b"b"), (one, b"a"), (one, b"c")):
            connections[0].answer(message, payload, ("__stat", "200"))
        self.assertEqual([getattr(await asked, "payload", None) for asked in (first, second)], [b"a", b"b"])

    async def test_a_request_is_sent_again_with_the_same_correlation_data(self) -> None:
        asked, message = await self.ask()
        connection = await self.reconnect()
        self.assertEqual(connection.filters, [ANSWERS])
        [(_, again)] = connection.sent
        self.assertEqual(
            (again.correlation_data, again.payload, again.user_properties),
            (message.correlation_data, message.payload, message.user_properties),
        )
        connection.answer(again, b"a", ("__stat", "200"))
        await asked

    async def test_a_key_is_registered_again_with_other_correlation_data_and_the_gap_is_reported(self) -> None:
        watching = asyncio.create_task(self.session.watched.watch(b"k", 4))
        await turns()
        registration = connections[0].sent[0][1]
        connection = await self.reconnect()
        await turns()
        self.assertEqual(connection.filters, [ANSWERS, NOTIFICATIONS])
        [(_, again)] = connection.sent
        self.assertEqual(again.payload, registration.payload)
        self.assertNotEqual(again.correlation_data, registration.correlation_data)
        connection.answer(registration, OK)
        await turns()
        self.assertFalse(watching.done(), "the old connection's registration")
        connection.answer(again, OK)
        watch = await watching

        connection = await self.reconnect()
        await turns()
        connection.answer(connection.sent[0][1], OK)
        self.assertEqual(await anext(watch), Gap(), "the first gap: it was watched from the beginning")
        watch.close()
        await turns()
        self.assertEqual(connection.payloads()[-1], b"*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n")

    async def test_changes_are_reported_once_in_the_order_of_their_versions(self) -> None:
        watching = asyncio.create_task(self.session.watched.watch(b"k", 4))
        await turns()
        connections[0].answer(connections[0].sent[0][1], OK)
        watch = await watching
        payload = b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$1\r\n%d\r\n"
        topic = NOTIFICATIONS.replace("+", "6B")
        for number, version in ((1, "5:1:s"), (1, "5:1:s"), (0, "4:9:s"), (2, "5:2:s")):
            self.session.received(Message(topic, payload % number, (("__ts", version),)))
        self.session.received(Message(topic, b"*1\r\n$4\r\nWHAT\r\n", ()))
        watch.close()
        values = [getattr(event, "value", None) async for event in watch]
        self.assertEqual(values, [b"1", b"2"])

    async def test_errors_of_all_kinds_reach_the_caller(self) -> None:
        asked, message = await self.ask()
        connections[0].listener.refused(connections[0].sent[-1][0], 0x83, "no topic")
        with self.assertRaises(Refused) as refused:
            await asked
        self.assertEqual(refused.exception.reason, 0x83)
        asked, message = await self.ask()
        connections[0].answer(message, OK, ("__stat", "505"))
        with self.assertRaises(WrongStatus):
            await asked
        asked, message = await self.ask()
        connections[0].answer(message, OK, ("__ts", "yesterday"))
        with self.assertRaises(MalformedReply):
            await asked
        asked, _ = await self.ask()
        connections[0].listener.not_subscribed(ANSWERS, 0x87)
        with self.assertRaises(Refused):
            await asked
