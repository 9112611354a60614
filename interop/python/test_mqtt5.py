"""MQTT 5 with paho: sessions, the three QoS, retained messages, wills, properties."""

import socket
import time
import unittest

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from case import Case
from peer import Closed, properties, user
from server import needs_statehold


class Connect(Case):
    def test_an_assigned_client_id(self):
        first, second = self.peer(""), self.peer("")
        ids = {first.connack.AssignedClientIdentifier, second.connack.AssignedClientIdentifier}
        self.assertEqual(len(ids), 2)

    def test_session_present_only_for_a_session_that_was_kept(self):
        peer = self.peer(clean=True, expiry=300)
        self.assertFalse(peer.session_present)
        peer.cut()
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)
        peer.cut()
        peer.connect(clean=True)
        self.assertFalse(peer.session_present)

    def test_a_session_without_expiry_ends_with_its_connection(self):
        peer = self.peer(clean=False)
        peer.subscribe("ended", qos=1)
        peer.cut()
        peer.connect(clean=False)
        self.assertFalse(peer.session_present)
        peer.publish("ended", qos=1)
        self.assertEqual(peer.came(), [])

    def test_disconnect_may_end_a_session_or_change_its_expiry(self):
        peer = self.peer(expiry=300)
        peer.leave(SessionExpiryInterval=0)
        peer.connect(clean=False)
        self.assertFalse(peer.session_present)
        peer.leave(SessionExpiryInterval=600)
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)

    def test_a_session_expires(self):
        peer = self.peer(expiry=1)
        watcher = self.peer()
        watcher.subscribe("ended/session", qos=1)
        peer.leave()
        # The will of another client, delayed past the expiry, tells when its session ended.
        other = self.peer(expiry=1, will={"topic": "ended/session", "payload": b"", "qos": 1,
                                          "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=60)})
        other.cut()
        watcher.next()
        peer.connect(clean=False)
        self.assertFalse(peer.session_present)

    def test_takeover(self):
        first = self.peer("taken", expiry=300)
        first.subscribe("kept", qos=1)
        second = self.peer("taken", clean=False, expiry=300)
        self.assertEqual(first.ended()[:2], (True, 0x8E))
        self.assertTrue(second.session_present)
        second.publish("kept", b"1", qos=1)
        self.assertEqual(second.next().payload, b"1")

    def test_keep_alive(self):
        watcher = self.peer()
        watcher.subscribe("silent", qos=1)
        with socket.create_connection((self.server.host, self.server.port)) as line:
            # CONNECT with keep alive 1 s, a will to "silent" at QoS 1, and then nothing.
            body = b"\x00\x04MQTT\x05\x0e\x00\x01\x00" + b"\x00\x06silent" + b"\x00" + b"\x00\x06silent" + b"\x00\x01x"
            line.sendall(bytes([0x10, len(body)]) + body)
            started = time.monotonic()
            line.settimeout(10)
            while line.recv(1024):
                pass
            self.assertGreater(time.monotonic() - started, 1.2)
        self.assertEqual(watcher.next().payload, b"x")

    def test_what_the_server_can_do(self):
        connack = self.peer().connack
        self.assertEqual(getattr(connack, "MaximumQoS", 2), 2)
        for name in ("RetainAvailable", "WildcardSubscriptionAvailable", "SubscriptionIdentifierAvailable"):
            self.assertEqual(getattr(connack, name, 1), 1)


class Delivery(Case):
    def test_every_qos_both_ways(self):
        publisher, subscriber = self.peer(), self.peer()
        for granted in (0, 1, 2):
            topic = self.name("qos")
            self.assertEqual(subscriber.subscribe(topic, qos=granted), granted)
            for sent in (0, 1, 2):
                publisher.publish(topic, b"%d" % sent, qos=sent)
                message = subscriber.next()
                self.assertEqual((message.payload, message.qos), (b"%d" % sent, min(sent, granted)))
                self.assertFalse(message.retain or message.dup)

    def test_order(self):
        publisher, subscriber = self.peer(), self.peer()
        for qos in (0, 1, 2):
            topic = self.name("order")
            subscriber.subscribe(topic, qos=qos)
            for number in range(500):
                publisher.publish(topic, b"%d" % number, qos=qos, wait=False)
            self.assertEqual(subscriber.payloads(500), [b"%d" % number for number in range(500)])

    def test_no_subscriber(self):
        self.assertIn(self.peer().publish("nobody/here", b"", qos=1)[0], (0x00, 0x10))

    def test_wildcards(self):
        publisher = self.peer()
        matches = {
            "sport/+/player": ["sport/a/player", "sport//player"],
            "sport/#": ["sport", "sport/a", "sport/a/player", "sport//player"],
            "+/+": ["sport/a", "/x"], "/+": ["/x"], "#": ["sport", "sport/a", "sport/a/player", "sport//player", "/x"],
        }
        topics = ["sport", "sport/a", "sport/a/player", "sport//player", "/x", "$hidden/x"]
        for topic_filter, expected in matches.items():
            subscriber = self.peer()
            subscriber.subscribe(topic_filter, qos=1)
            for topic in topics:
                publisher.publish(topic, b"", qos=1)
            topics_seen = [message.topic for message in subscriber.came() if not message.retain]
            self.assertEqual(topics_seen, expected, topic_filter)

    def test_subscription_options(self):
        peer, other, topic = self.peer(), self.peer(), self.name("options")
        peer.subscribe(topic, qos=1, noLocal=True)
        peer.publish(topic, b"own", qos=1)
        other.publish(topic, b"other", qos=1)
        self.assertEqual([message.payload for message in peer.came()], [b"other"])
        peer.subscribe(topic, qos=1, retainAsPublished=True)
        other.publish(topic, b"kept", qos=1, retain=True)
        self.assertTrue(peer.next().retain)
        peer.subscribe(topic, qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
        other.publish(topic, b"kept", qos=1, retain=True)
        self.assertFalse(peer.next().retain)

    def test_subscription_identifiers(self):
        peer, topic = self.peer(), self.name("identifiers")
        peer.subscribe(topic, qos=1, identifier=7)
        peer.subscribe(f"{topic}/#", qos=1, identifier=268_435_455)
        peer.publish(topic, b"", qos=1)
        seen = []
        for message in peer.came():
            seen += message.properties.SubscriptionIdentifier
        self.assertEqual(sorted(seen), [7, 268_435_455])

    def test_unsubscribe(self):
        peer, topic = self.peer(), self.name("unsubscribe")
        self.assertEqual(peer.unsubscribe(topic), 0x11)
        peer.subscribe(topic, qos=1)
        self.assertEqual(peer.unsubscribe(topic), 0x00)
        peer.publish(topic, b"", qos=1)
        self.assertEqual(peer.came(), [])

    def test_properties_go_through_unchanged_and_in_order(self):
        peer, topic = self.peer(), self.name("properties")
        peer.subscribe(topic, qos=1)
        pairs = [("a", "1"), ("b", ""), ("a", "2"), ("\u00e4", "\u20ac \U0001f512")]
        peer.publish(topic, b"x", qos=1, UserProperty=pairs, ContentType="text/plain", PayloadFormatIndicator=1,
                     ResponseTopic="answer/here", CorrelationData=b"\x00\xff", MessageExpiryInterval=100)
        got = peer.next().properties
        self.assertEqual(got.UserProperty, pairs)
        self.assertEqual((got.ContentType, got.PayloadFormatIndicator), ("text/plain", 1))
        self.assertEqual((got.ResponseTopic, got.CorrelationData), ("answer/here", b"\x00\xff"))
        self.assertIn(got.MessageExpiryInterval, range(95, 101))

    def test_topic_aliases_of_the_client(self):
        peer, topic = self.peer(), self.name("alias")
        self.assertGreaterEqual(getattr(peer.connack, "TopicAliasMaximum", 0), 1)
        peer.subscribe(f"{topic}/#", qos=1)
        peer.publish(f"{topic}/1", b"sets it", qos=1, TopicAlias=1)
        peer.publish("", b"uses it", qos=1, TopicAlias=1)
        peer.publish(f"{topic}/2", b"changes it", qos=1, TopicAlias=1)
        peer.publish("", b"uses that", qos=1, TopicAlias=1)
        self.assertEqual([(m.topic, m.payload) for m in peer.came()], [
            (f"{topic}/1", b"sets it"), (f"{topic}/1", b"uses it"),
            (f"{topic}/2", b"changes it"), (f"{topic}/2", b"uses that")])

    def test_topic_aliases_of_the_server(self):
        peer, other, topic = self.peer(TopicAliasMaximum=3), self.peer(), self.name("server-alias")
        peer.subscribe(f"{topic}/#", qos=1)
        expected = [f"{topic}/{number % 5}" for number in range(20)]
        for each in expected:
            other.publish(each, b"", qos=1)
        # paho does not resolve them: a message with an alias that it has seen before has no topic.
        names, got = {}, []
        for _ in expected:
            message = peer.next()
            alias = getattr(message.properties, "TopicAlias", None)
            if alias is not None:
                self.assertLessEqual(alias, 3)
                if message.topic:
                    names[alias] = message.topic
            got.append(message.topic or names[alias])
        self.assertEqual(got, expected)

    def test_a_message_larger_than_the_client_takes_is_not_sent(self):
        peer, other, topic = self.peer(MaximumPacketSize=200), self.peer(), self.name("size")
        peer.subscribe(topic, qos=1)
        other.publish(topic, b"x" * 1000, qos=1)
        other.publish(topic, b"small", qos=1)
        self.assertEqual(peer.next().payload, b"small")

    def test_large_messages(self):
        peer, topic = self.peer(), self.name("large")
        peer.subscribe(topic, qos=2)
        payload = bytes(range(256)) * 1000
        for qos in (0, 1, 2):
            peer.publish(topic, payload, qos=qos)
            self.assertTrue(peer.next().payload == payload)

    def test_topics_that_nobody_may_publish_to(self):
        for topic in ("a/+", "#"):
            peer = self.peer()
            try:
                code, _ = peer.publish(topic, b"", qos=1)
                self.assertGreaterEqual(code, 0x80)
            except ValueError:
                pass


class SharedSubscriptions(Case):
    def share(self, topic, *peers):
        for peer in peers:
            self.assertEqual(peer.subscribe(f"$share/crew/{topic}", qos=1), 1)

    def test_each_message_goes_to_one_of_those_who_share(self):
        first, second, other, topic = self.peer(), self.peer(), self.peer(), self.name("shared")
        self.assertEqual(getattr(first.connack, "SharedSubscriptionAvailable", 1), 1)
        self.share(topic, first, second)
        other.subscribe(topic, qos=1)
        for number in range(100):
            other.publish(topic, b"%d" % number, qos=1)
        got = [[message.payload for message in peer.came()] for peer in (first, second)]
        self.assertEqual(sorted(sum(got, [])), sorted(b"%d" % number for number in range(100)))
        self.assertTrue(all(got))
        self.assertEqual(len(other.came()), 100)

    @needs_statehold
    def test_a_partition_goes_to_one_of_them(self):
        peers, other, topic = [self.peer() for _ in range(4)], self.peer(), self.name("partitions")
        self.share(topic, *peers)
        for number in range(80):
            other.publish(topic, b"x", qos=1, UserProperty=[("$partition", str(number % 8))])
        partitions = [{dict(message.properties.UserProperty)["$partition"] for message in peer.came()} for peer in peers]
        self.assertEqual(sorted(sum(map(list, partitions), [])), [str(number) for number in range(8)])

    def test_what_one_of_them_has_not_acknowledged_goes_to_another_when_its_session_ends(self):
        first, other, topic = self.peer(manual_ack=True), self.peer(), self.name("left")
        self.share(topic, first)
        other.publish(topic, b"job", qos=1)
        self.assertEqual(first.next().payload, b"job")
        second = self.peer()
        self.share(topic, second)
        first.cut()
        self.assertEqual(second.next().payload, b"job")

    @needs_statehold
    def test_messages_wait_while_nobody_is_there_and_survive_the_server(self):
        first, other, topic = self.peer(expiry=300), self.peer(), self.name("waiting")
        self.share(topic, first)
        first.leave()
        other.publish(topic, b"job", qos=1)
        self.server.kill()
        self.server.start()
        first.connect(clean=False)
        self.assertTrue(first.session_present)
        self.assertEqual(first.next().payload, b"job")


class Sessions(Case):
    def test_messages_wait_for_an_offline_client(self):
        peer, other, topic = self.peer(expiry=300), self.peer(), self.name("offline")
        peer.subscribe(topic, qos=2)
        peer.leave()
        for number in range(200):
            other.publish(topic, b"%d" % number, qos=1 + number % 2, wait=False)
        self.assertEqual(other.came(), [])
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)
        messages = [peer.next() for _ in range(200)]
        # MQTT orders the messages of one QoS: paho tells of one of QoS 2 only when all four packets are through.
        for qos in (1, 2):
            self.assertEqual([message.payload for message in messages if message.qos == qos],
                             [b"%d" % number for number in range(qos - 1, 200, 2)])
        self.assertFalse(any(message.dup for message in messages))

    def test_unacknowledged_messages_come_again_with_dup(self):
        peer, other, topic = self.peer(expiry=300, manual_ack=True), self.peer(), self.name("again")
        peer.subscribe(topic, qos=1)
        for number in range(5):
            other.publish(topic, b"%d" % number, qos=1)
        first = [peer.next() for _ in range(5)]
        self.assertFalse(any(message.dup for message in first))
        peer.cut()
        peer.connect(clean=False)
        again = [peer.next() for _ in range(5)]
        self.assertEqual([message.payload for message in again], [message.payload for message in first])
        self.assertEqual([message.mid for message in again], [message.mid for message in first])
        self.assertTrue(all(message.dup for message in again))
        for message in again:
            peer.client.ack(message.mid, message.qos)
        peer.leave()
        peer.connect(clean=False)
        other.publish(topic, b"next", qos=1)
        self.assertEqual(peer.next().payload, b"next")

    def test_receive_maximum_holds(self):
        peer, other, topic = self.peer(manual_ack=True, ReceiveMaximum=3), self.peer(), self.name("window")
        peer.subscribe(topic, qos=1)
        for number in range(10):
            other.publish(topic, b"%d" % number, qos=1)
        # A SUBACK is not held back, so it comes behind all messages that fit, and no other is on its way.
        peer.subscribe(f"{topic}/other", qos=0)
        self.assertEqual(peer.payloads(3), [b"0", b"1", b"2"])
        self.assertTrue(peer.messages.empty())
        for mid in (1, 2, 3):
            peer.client.ack(mid, 1)
        self.assertEqual(peer.payloads(3), [b"3", b"4", b"5"])

    def test_a_message_expires_in_the_queue(self):
        peer, other, topic = self.peer(expiry=300), self.peer(), self.name("expires")
        other.subscribe(f"{topic}/retained", qos=1)
        peer.subscribe(topic, qos=1)
        peer.leave()
        other.publish(topic, b"short", qos=1, MessageExpiryInterval=1)
        other.publish(topic, b"long", qos=1, MessageExpiryInterval=100)
        time.sleep(1.2)
        peer.connect(clean=False)
        message = peer.next()
        self.assertEqual(message.payload, b"long")
        self.assertLess(message.properties.MessageExpiryInterval, 100)
        self.assertEqual(peer.came(), [])

    @needs_statehold
    def test_a_killed_server_keeps_sessions_queues_and_retained_messages(self):
        peer, other, topic = self.peer(expiry=3000), self.peer(), self.name("killed")
        online = self.peer(expiry=3000)
        online.subscribe(f"{topic}/+", qos=2)
        peer.subscribe(f"{topic}/+", qos=2)
        peer.leave()
        for number in range(50):
            self.assertEqual(other.publish(f"{topic}/{number % 3}", b"%d" % number, qos=1 + number % 2)[0], 0)
        other.publish(f"{topic}/kept", b"kept", qos=1, retain=True)
        self.server.kill()
        online.ended()
        self.server.start()
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)
        self.assertEqual(sorted(peer.payloads(51)), sorted([b"%d" % number for number in range(50)] + [b"kept"]))
        online.connect(clean=False)
        self.assertTrue(online.session_present)
        other = self.peer()
        other.publish(f"{topic}/0", b"after", qos=2)
        while online.next().payload != b"after":
            pass
        new = self.peer()
        new.subscribe(f"{topic}/kept", qos=1)
        self.assertEqual(new.next().payload, b"kept")

    @needs_statehold
    def test_an_orderly_stop_says_so(self):
        peer = self.peer(expiry=300)
        self.assertEqual(self.server.terminate(), 0)
        self.assertEqual(peer.ended()[:2], (True, 0x8B))
        self.server.start()
        peer.connect(clean=False)
        self.assertTrue(peer.session_present)


class Retained(Case):
    def test_set_replace_and_clear(self):
        publisher, topic = self.peer(), self.name("retained")
        publisher.publish(topic, b"1", qos=1, retain=True)
        publisher.publish(topic, b"2", qos=1, retain=True)
        publisher.publish(topic, b"not retained", qos=1)
        subscriber = self.peer()
        subscriber.subscribe(topic, qos=1)
        message = subscriber.next()
        self.assertEqual((message.payload, message.retain), (b"2", True))
        publisher.publish(topic, b"", qos=1, retain=True)
        self.assertEqual([m.payload for m in subscriber.came()], [b""])
        later = self.peer()
        later.subscribe(topic, qos=1)
        self.assertEqual(later.came(), [])

    def test_retain_handling(self):
        publisher, topic = self.peer(), self.name("handling")
        publisher.publish(topic, b"kept", qos=1, retain=True)
        peer = self.peer()
        peer.subscribe(topic, qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
        self.assertEqual(peer.came(), [])
        peer.subscribe(topic, qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        self.assertEqual(peer.came(), [])
        peer.subscribe(topic, qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)
        self.assertEqual([m.payload for m in peer.came()], [b"kept"])
        peer.unsubscribe(topic)
        peer.subscribe(topic, qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        self.assertEqual([m.payload for m in peer.came()], [b"kept"])

    def test_wildcards_and_properties(self):
        publisher, topic = self.peer(), self.name("many")
        for number in range(20):
            publisher.publish(f"{topic}/{number}", b"%d" % number, qos=1, retain=True,
                              UserProperty=[("number", str(number))], MessageExpiryInterval=500)
        peer = self.peer()
        peer.subscribe(f"{topic}/+", qos=1)
        messages = peer.came()
        self.assertEqual({m.payload for m in messages}, {b"%d" % number for number in range(20)})
        self.assertEqual({user(m, "number")[0].encode() for m in messages}, {m.payload for m in messages})

    def test_a_retained_message_expires(self):
        publisher, topic = self.peer(), self.name("expires")
        publisher.publish(topic, b"short", qos=1, retain=True, MessageExpiryInterval=1)
        time.sleep(1.2)
        peer = self.peer()
        peer.subscribe(topic, qos=1)
        self.assertEqual(peer.came(), [])


class Wills(Case):
    def dying(self, topic, delay=None, **options):
        extra = properties(PacketTypes.WILLMESSAGE, UserProperty=[("why", "died")])
        if delay is not None:
            extra.WillDelayInterval = delay
        will = {"topic": topic, "payload": b"gone", "qos": 1, "properties": extra}
        will.update(options.pop("will", {}))
        return self.peer(will=will, **options)

    def test_a_lost_connection_publishes_it(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        self.dying(topic).cut()
        message = watcher.next()
        self.assertEqual((message.payload, user(message, "why")), (b"gone", ["died"]))

    def test_a_normal_disconnect_does_not_and_0x04_does(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        self.dying(topic).leave()
        self.assertEqual(watcher.came(), [])
        self.dying(topic).leave(reason=4)
        self.assertEqual(watcher.next().payload, b"gone")

    def test_a_reconnect_cancels_a_delayed_one(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        peer = self.dying(topic, delay=60, expiry=300)
        peer.cut()
        peer.connect(clean=False)
        self.assertEqual(watcher.came(), [])
        peer.leave()

    def test_a_delayed_one_comes_after_its_delay_and_not_later_than_the_end_of_the_session(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        for delay, expiry in ((1, 300), (60, 1)):
            started = time.monotonic()
            self.dying(topic, delay=delay, expiry=expiry).cut()
            self.assertEqual(watcher.next().payload, b"gone")
            self.assertGreater(time.monotonic() - started, 0.9)

    def test_a_retained_will(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        self.dying(topic, will={"retain": True}).cut()
        watcher.next()
        later = self.peer()
        later.subscribe(topic, qos=1)
        self.assertTrue(later.next().retain)

    def test_a_takeover_publishes_it(self):
        watcher, topic = self.peer(), self.name("will")
        watcher.subscribe(topic, qos=1)
        self.dying(topic, client_id="taken-with-will")
        self.peer("taken-with-will")
        self.assertEqual(watcher.next().payload, b"gone")


if __name__ == "__main__":
    unittest.main()
