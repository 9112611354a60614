"""What the interoperability suites of eclipse/paho.mqtt.testing look at and no other test here does.

The scenarios are theirs, the tests are ours; README.md says which test stands for which of theirs.
"""

import socket
import time
import unittest

from paho.mqtt.packettypes import PacketTypes

from case import Case
from peer import properties
from server import needs_statehold


class Line:
    """A bare socket, for what paho-mqtt does not say."""

    def __init__(self, server):
        self.socket = socket.create_connection((server.host, server.port))
        self.socket.settimeout(15)

    def send(self, first, body):
        assert len(body) < 128
        self.socket.sendall(bytes([first, len(body)]) + body)

    def connect(self, version=5, protocol=b"MQTT", client_id=b"", clean=True):
        self.send(0x10, bytes([0, len(protocol)]) + protocol + bytes([version, 2 if clean else 0, 0, 0])
                  + (b"\0" if version == 5 else b"") + bytes([0, len(client_id)]) + client_id)

    def packet(self):
        """The next packet, first byte and body; None at the end of the connection. None is longer than 127 bytes."""
        head = self._exactly(2)
        return head and (head[0], self._exactly(head[1]))

    def _exactly(self, count):
        got = b""
        while len(got) < count:
            try:
                more = self.socket.recv(count - len(got))
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            got += more
        return got


class Both(Case):
    """In both versions."""

    def versions(self):
        for version in (5, 4):
            with self.subTest(version=version):
                yield version

    def line(self):
        line = Line(self.server)
        self.addCleanup(line.socket.close)
        return line

    def durable(self, version, **options):
        if version == 5:
            return self.peer(version=5, expiry=300, **options)
        return self.peer(version=4, clean=False, **options)

    def test_a_second_connect_ends_the_connection(self):
        for version in self.versions():
            line = self.line()
            line.connect(version, client_id=b"twice")
            self.assertEqual(line.packet()[0], 0x20)
            line.connect(version, client_id=b"twice")
            last = line.packet()
            if version == 5:
                self.assertEqual((last[0], last[1][0]), (0xE0, 0x82))
                last = line.packet()
            self.assertIsNone(last)

    def test_another_protocol_name_is_refused(self):
        line = self.line()
        line.connect(protocol=b"hj")
        answer = line.packet()
        if answer:
            self.assertGreaterEqual(answer[1][1], 1)
            self.assertIsNone(line.packet())

    def test_an_empty_client_id_needs_a_clean_session_in_3_1_1(self):
        for clean, code in ((False, 2), (True, 0)):
            line = self.line()
            line.connect(4, clean=clean)
            self.assertEqual(line.packet(), (0x20, bytes([0, code])))

    def test_retained_messages_of_every_qos(self):
        for version in self.versions():
            peer, topic = self.peer(version=version), self.name("kept")
            for qos in (0, 1, 2):
                peer.publish(f"{topic}/{qos}", b"%d" % qos, qos=qos, retain=True)
            peer.subscribe(f"{topic}/+", qos=2)
            messages = [peer.next() for _ in range(3)]
            self.assertEqual({(m.payload, m.qos, m.retain) for m in messages},
                             {(b"%d" % qos, qos, True) for qos in (0, 1, 2)})
            for qos in (0, 1, 2):
                peer.publish(f"{topic}/{qos}", b"", qos=qos, retain=True)
            later = self.peer(version=version)
            later.subscribe(f"{topic}/+", qos=2)
            self.assertEqual(later.came(), [])

    def test_overlapping_subscriptions_give_one_message_of_the_highest_qos(self):
        for version in self.versions():
            peer, topic = self.peer(version=version), self.name("overlapping")
            peer.subscribe(f"{topic}/#", qos=2)
            peer.subscribe(f"{topic}/+", qos=1)
            peer.publish(f"{topic}/x", b"x", qos=2)
            self.assertIn([m.qos for m in peer.came()], ([2], [2, 1], [1, 2]))

    def test_unfinished_deliveries_of_qos_1_and_2_come_again(self):
        for version in self.versions():
            peer, other = self.durable(version, manual_ack=True), self.peer(version=version)
            topic = self.name("unfinished")
            peer.subscribe(f"{topic}/#", qos=2)
            other.publish(f"{topic}/1", b"", qos=1)
            first = peer.next()
            peer.cut()
            other.publish(f"{topic}/2", b"", qos=2)
            peer.connect(clean=False)
            again = [peer.next() for _ in range(2)]
            self.assertEqual([(m.topic, m.qos) for m in again], [(f"{topic}/1", 1), (f"{topic}/2", 2)])
            self.assertEqual((again[0].mid, again[0].dup), (first.mid, True))

    def test_a_filter_that_is_none_fails_alone(self):
        for version in self.versions():
            line = self.line()
            line.connect(version)
            self.assertEqual(line.packet()[0], 0x20)
            line.send(0x82, b"\0\x01" + (b"\0" if version == 5 else b"") + b"\0\x05a/#/b\x00" + b"\0\x01a\x01")
            first, body = line.packet()
            self.assertEqual((first, body[-2:]), (0x90, bytes([0x8F if version == 5 else 0x80, 1])))

    def test_wildcards_do_not_match_dollar_topics(self):
        for version in self.versions():
            peer, other = self.peer(version=version), self.peer(version=version)
            for topic_filter in ("#", "+/+"):
                peer.subscribe(topic_filter, qos=2)
            other.publish("$hidden/x", b"", qos=1)
            self.assertEqual([m for m in peer.came() if m.topic.startswith("$")], [])

    def test_unsubscribing_from_one_leaves_the_others(self):
        for version in self.versions():
            peer, other, topic = self.peer(version=version), self.peer(version=version), self.name("some")
            for number in range(3):
                peer.subscribe(f"{topic}/{number}", qos=2)
            peer.unsubscribe(f"{topic}/0")
            for number in range(3):
                other.publish(f"{topic}/{number}", b"", qos=1)
            self.assertEqual([m.topic for m in peer.came()], [f"{topic}/1", f"{topic}/2"])


class Five(Case):
    """In version 5 only."""

    def line(self):
        line = Line(self.server)
        self.addCleanup(line.socket.close)
        return line

    def test_a_session_outlives_its_connection_by_its_expiry_and_no_longer(self):
        peer = self.peer(expiry=2)
        peer.leave()
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)
        peer.leave()
        time.sleep(2.5)
        peer.connect(clean=False)
        self.assertFalse(peer.session_present)

    def test_properties_come_with_every_qos(self):
        peer, topic = self.peer(), self.name("properties")
        peer.subscribe(topic, qos=2)
        for qos in (0, 1, 2):
            peer.publish(topic, b"", qos=qos, UserProperty=[("a", "2"), ("c", "3")], PayloadFormatIndicator=1,
                         ContentType="a type")
            message = peer.next()
            got = message.properties
            self.assertEqual((message.qos, got.UserProperty), (qos, [("a", "2"), ("c", "3")]))
            self.assertEqual((got.PayloadFormatIndicator, got.ContentType), (1, "a type"))

    def test_a_request_is_answered_where_it_says(self):
        asker, answerer, topic = self.peer(), self.peer(), self.name("both-ways")
        for peer in (asker, answerer):
            peer.subscribe(topic, qos=2, noLocal=True)
        asker.publish(topic, b"request", qos=1, ResponseTopic=topic, CorrelationData=b"334")
        request = answerer.next()
        answerer.publish(request.properties.ResponseTopic, b"response", qos=1,
                         CorrelationData=request.properties.CorrelationData)
        response = asker.next()
        self.assertEqual((response.payload, response.properties.CorrelationData), (b"response", b"334"))

    def test_topic_aliases_end_with_the_connection(self):
        peer, topic = self.peer(expiry=300), self.name("alias")
        peer.publish(topic, b"sets it", qos=1, TopicAlias=1)
        peer.leave()
        peer.connect(clean=False)
        peer.publish("", b"uses it", qos=1, wait=False, TopicAlias=1)
        from_server, code, _ = peer.ended()
        self.assertTrue(from_server)
        self.assertIn(code, (0x82, 0x94))

    def test_topic_alias_0_ends_the_connection(self):
        line = self.line()
        line.connect()
        self.assertEqual(line.packet()[0], 0x20)
        line.send(0x30, b"\0\x01a" + b"\x03\x23\0\0" + b"x")
        first, body = line.packet()
        self.assertEqual(first, 0xE0)
        self.assertIn(body[0], (0x82, 0x94))
        self.assertIsNone(line.packet())

    def test_no_topic_alias_for_a_client_that_wants_none(self):
        peer, topic = self.peer(), self.name("no-alias")
        peer.subscribe(topic, qos=2)
        for qos in (0, 1, 2):
            peer.publish(topic, b"", qos=qos)
            message = peer.next()
            self.assertEqual((message.topic, hasattr(message.properties, "TopicAlias")), (topic, False))

    def test_a_packet_larger_than_the_server_takes_ends_the_connection(self):
        peer = self.peer()
        most = getattr(peer.connack, "MaximumPacketSize", None)
        if most is None or most > 1 << 22:
            self.skipTest("the server has no such limit")
        peer.publish("large", b"x" * most, qos=0)
        self.assertEqual(peer.ended()[:2], (True, 0x95))

    @needs_statehold
    def test_a_longer_keep_alive_is_replaced(self):
        self.assertEqual(self.peer(keep_alive=65_535).connack.ServerKeepAlive, 3_600)
        self.assertFalse(hasattr(self.peer(keep_alive=30).connack, "ServerKeepAlive"))

    def test_more_unacknowledged_messages_than_receive_maximum_end_the_connection(self):
        line = self.line()
        line.connect()
        first, body = line.packet()
        self.assertEqual(first, 0x20)
        most = 65_535
        if b"\x21" in body[3:]:
            place = body.index(b"\x21", 3)
            most = int.from_bytes(body[place + 1:place + 3], "big")
        if most > 10_000:
            self.skipTest("the server has no such limit")
        # QoS 2: each counts until it is released.
        for packet_id in range(1, most + 2):
            line.send(0x34, b"\0\x01m" + packet_id.to_bytes(2, "big") + b"\0")
        while (packet := line.packet()) and packet[0] == 0x50:
            pass
        self.assertEqual((packet[0], packet[1][0]), (0xE0, 0x93))

    def test_a_shared_subscription_has_a_copy_of_its_own(self):
        peer, topic = self.peer(), self.name("own-copy")
        peer.subscribe(f"$share/crew/{topic}", qos=2)
        peer.subscribe(topic, qos=2)
        peer.publish(topic, b"", qos=1)
        self.assertEqual(len(peer.came()), 2)

    def test_a_will_comes_after_its_delay_and_not_before(self):
        watcher, topic = self.peer(), self.name("will-delay")
        watcher.subscribe(topic, qos=2)
        will = {"topic": topic, "payload": b"late", "qos": 1,
                "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=2)}
        started = time.monotonic()
        self.peer(will=will, expiry=300).cut()
        self.assertEqual(watcher.next().payload, b"late")
        self.assertGreater(time.monotonic() - started, 1.9)


if __name__ == "__main__":
    unittest.main()
