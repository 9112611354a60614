"""MQTT 3.1.1 with paho, and the two versions together."""

import unittest

from case import Case


class Old(Case):
    def old(self, client_id=None, **options):
        return self.peer(client_id, version=4, **options)

    def test_every_qos(self):
        publisher, subscriber = self.old(), self.old()
        for granted in (0, 1, 2):
            topic = self.name("qos")
            self.assertEqual(subscriber.subscribe(topic, qos=granted), granted)
            for sent in (0, 1, 2):
                publisher.publish(topic, b"%d" % sent, qos=sent)
                message = subscriber.next()
                self.assertEqual((message.payload, message.qos), (b"%d" % sent, min(sent, granted)))

    def test_a_session_that_is_not_clean_waits_for_its_client(self):
        peer, other, topic = self.old(clean=False), self.old(), self.name("offline")
        self.assertFalse(peer.session_present)
        peer.subscribe(topic, qos=2)
        peer.cut()
        for number in range(100):
            other.publish(topic, b"%d" % number, qos=1 + number % 2)
        peer.connect()
        self.assertTrue(peer.session_present)
        messages = [peer.next() for _ in range(100)]
        for qos in (1, 2):
            self.assertEqual([message.payload for message in messages if message.qos == qos],
                             [b"%d" % number for number in range(qos - 1, 100, 2)])
        peer.leave()

    def test_a_clean_session_ends_with_its_connection(self):
        peer = self.old()
        peer.subscribe("ended", qos=1)
        peer.cut()
        peer.connect()
        self.assertFalse(peer.session_present)

    def test_retained_and_will(self):
        watcher, topic = self.old(), self.name("will")
        watcher.subscribe(topic, qos=1)
        self.old(will={"topic": topic, "payload": b"gone", "qos": 1, "retain": True}).cut()
        self.assertEqual(watcher.next().payload, b"gone")
        self.old(will={"topic": topic, "payload": b"wrong", "qos": 1}).leave()
        self.assertEqual(watcher.came(), [])
        later = self.old()
        later.subscribe(topic, qos=1)
        message = later.next()
        self.assertEqual((message.payload, message.retain), (b"gone", True))

    def test_an_empty_client_id_is_given_one(self):
        self.assertEqual(self.old("").code, 0)

    def test_both_versions_together(self):
        old, new, topic = self.old(), self.peer(), self.name("both")
        old.subscribe(topic, qos=2)
        new.subscribe(topic, qos=2)
        new.publish(topic, b"from 5", qos=2, UserProperty=[("a", "b")], ContentType="text/plain",
                    MessageExpiryInterval=60, ResponseTopic="x", CorrelationData=b"y")
        old.publish(topic, b"from 4", qos=2)
        for peer in (old, new):
            self.assertEqual(sorted(peer.payloads(2)), [b"from 4", b"from 5"])

    def test_a_takeover_across_versions(self):
        old = self.old("both-versions")
        self.peer("both-versions")
        self.assertFalse(old.ended()[0], "3.1.1 has no DISCONNECT from the server")

    def test_a_shared_subscription_across_versions(self):
        old, new, topic = self.old(), self.peer(), self.name("shared")
        for peer in (old, new):
            self.assertEqual(peer.subscribe(f"$share/crew/{topic}", qos=1), 1)
        for number in range(10):
            new.publish(topic, b"%d" % number, qos=1)
        got = [[message.payload for message in peer.came()] for peer in (old, new)]
        self.assertEqual(sorted(sum(got, [])), [b"%d" % number for number in range(10)])
        self.assertTrue(all(got))

    def test_unsubscribe(self):
        peer, topic = self.old(), self.name("unsubscribe")
        peer.subscribe(topic, qos=1)
        peer.unsubscribe(topic)
        peer.publish(topic, b"", qos=1)
        self.assertEqual(peer.came(), [])


if __name__ == "__main__":
    unittest.main()
