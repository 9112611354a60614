"""The MQTT side of the state store: notifications, reserved topics, and requests that are not proper ones."""

import unittest

from case import Case
from peer import Closed
from server import needs_statehold
from store import INVOKE, NOTIFY, Store, clock, notification_topic, order, resp
from peer import user

DELETED = {False: b"*2\r\n$6\r\nNOTIFY\r\n$3\r\nDEL\r\n", True: b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"}


def was_set(value):
    return b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$%d\r\n%s\r\n" % (len(value), value)


@needs_statehold
class Notifications(Case):
    def test_the_topic_of_the_text(self):
        self.assertEqual(
            notification_topic("client-id1", "SOMEKEY"),
            "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/636C69656E742D696431/command/notify/"
            "534F4D454B4559")

    def test_topic_payload_and_version_in_both_dialects(self):
        for sdk in (False, True):
            watcher, writer, key = Store(self, sdk=sdk), Store(self, sdk=not sdk), self.name("key")
            watcher.peer.subscribe(f"{NOTIFY}/{watcher.client_id.encode().hex().upper()}/command/notify/#", qos=1)
            self.assertEqual(watcher.ask("KEYNOTIFY", key), b"+OK\r\n")
            self.assertEqual(watcher.ask("KEYNOTIFY", key), b"+OK\r\n", "twice is once")
            version = writer.call("SET", key, "abc").version
            told = watcher.notification()
            self.assertEqual((told.topic, told.payload), (notification_topic(watcher.client_id, key), was_set(b"abc")))
            self.assertEqual((told.qos, told.retain, user(told, "__ts")), (1, False, [version]))
            for delete in (("DEL", key), ("VDEL", key, "abc")):
                writer.ask("SET", key, "abc")
                self.assertEqual(watcher.notification().payload, was_set(b"abc"))
                deleted = writer.call(*delete)
                told = watcher.notification()
                self.assertEqual(told.payload, DELETED[sdk])
                self.assertGreater(order(user(told, "__ts")[0]), order(deleted.version))
            self.assertEqual(writer.ask("SET", key, "x", "PX", "100"), b"+OK\r\n")
            self.assertEqual(watcher.notification().payload, was_set(b"x"))
            self.assertEqual(watcher.notification().payload, DELETED[sdk], "an expiry deletes too")
            self.assertEqual(watcher.ask("KEYNOTIFY", key, "STOP"), b"+OK\r\n")
            self.assertEqual(watcher.ask("KEYNOTIFY", key, "STOP"), b":0\r\n")
            writer.ask("SET", key, "after")
            self.assertEqual(watcher.peer.came(), [])

    def test_without_any_subscription_and_once_with_many(self):
        for filters in ((), (f"{NOTIFY}/#", f"{NOTIFY}/+/command/notify/+"), (f"{NOTIFY}/#", "clients/statestore/#")):
            watcher, key = Store(self), self.name("key")
            for each in filters:
                watcher.peer.subscribe(each, qos=1)
            watcher.ask("KEYNOTIFY", key)
            correlation, _ = watcher.send(resp("SET", key, "1"), ts=clock())
            first = watcher.peer.next()
            self.assertEqual(first.payload, was_set(b"1"), "before the reply to the request that caused it")
            self.assertEqual(watcher.reply(correlation).payload, b"+OK\r\n")
            self.assertEqual(watcher.notifications + watcher.peer.came(), [], filters)

    def test_others_do_not_see_them(self):
        watcher, other, listener, key = Store(self), self.peer(), self.peer(), self.name("key")
        other.subscribe("#", qos=1)
        other.subscribe(f"{NOTIFY}/#", qos=1)
        listener.subscribe(watcher.response_topic, qos=1)
        watcher.ask("KEYNOTIFY", key)
        watcher.ask("SET", key, "1")
        watcher.notification()
        self.assertEqual([message.topic for message in other.came()], [])
        # Where nobody says who may what, a response can be heard by its name.
        self.assertEqual({message.topic for message in listener.came()}, {watcher.response_topic})

    def test_a_registration_ends_with_the_connection_also_if_the_session_goes_on(self):
        will = {"topic": self.name("gone"), "payload": b"", "qos": 1}
        watcher = Store(self, clean=True, expiry=300, will=will)
        writer, witness, key = Store(self), self.peer(), self.name("key")
        witness.subscribe(will["topic"], qos=1)
        watcher.ask("KEYNOTIFY", key)
        watcher.peer.cut()
        witness.next()  # the will: now the server knows that the connection is gone
        writer.ask("SET", key, "while away")
        watcher.peer.connect(clean=False)
        self.assertTrue(watcher.peer.session_present)
        writer.ask("SET", key, "back")
        # The reply to KEYNOTIFY may come again: the cut may have been faster than its PUBACK.
        self.assertFalse([message for message in watcher.peer.came() if message.topic.startswith(NOTIFY)])
        self.assertEqual(watcher.ask("KEYNOTIFY", key, "STOP"), b":0\r\n")

    def test_a_key_too_long_to_be_watched(self):
        store, key = Store(self), b"k" * 33_000
        self.assertEqual(store.ask("SET", key, "v"), b"+OK\r\n")
        self.assertEqual(store.ask("KEYNOTIFY", key), b"-ERR the key is too long to be watched\r\n")
        self.assertEqual(store.ask("DEL", key), b":1\r\n")


@needs_statehold
class Reserved(Case):
    def test_requests_are_seen_by_the_store_alone(self):
        spy, store = self.peer(), Store(self)
        self.assertLess(spy.subscribe(INVOKE, qos=1), 0x80)
        self.assertLess(spy.subscribe("statestore/#", qos=1), 0x80)
        store.ask("SET", "secret", "v")
        self.assertEqual(spy.came(), [])

    def test_nobody_can_forge_a_notification(self):
        victim, forger = Store(self), self.peer()
        topic = notification_topic(victim.client_id, "key")
        victim.peer.subscribe(f"{NOTIFY}/#", qos=1)
        try:
            code, _ = forger.publish(topic, was_set(b"forged"), qos=1)
            self.assertGreaterEqual(code, 0x80)
        except Closed:
            self.assertGreaterEqual(forger.ended()[1], 0x80)
        self.assertEqual(victim.peer.came(), [])


@needs_statehold
class ImproperRequests(Case):
    def test_what_is_missing_is_named_in_the_puback(self):
        peer = self.peer()
        payload = resp("SET", "improper", "v")
        stamp = [("__ts", clock())]
        cases = [
            ({"CorrelationData": b"1"}, "response topic"),
            ({"ResponseTopic": "answers"}, "correlation data"),
            ({}, ""),
        ]
        for given, missing in cases:
            code, properties = peer.publish(INVOKE, payload, qos=1, UserProperty=stamp, **given)
            self.assertEqual(code, 0x83)
            self.assertIn(missing, properties.ReasonString.lower())
        code, _ = peer.publish(INVOKE, payload, qos=2, UserProperty=stamp, ResponseTopic="answers", CorrelationData=b"1")
        # paho goes on with PUBREL after a PUBREC of 0x83, and reports the PUBCOMP of that.
        self.assertIn(code, (0x83, 0x92))
        peer.publish(INVOKE, payload, qos=0, UserProperty=stamp, ResponseTopic="answers", CorrelationData=b"1")
        old = self.peer(version=4)
        old.publish(INVOKE, payload, qos=1)
        self.assertEqual(peer.came(), [])
        self.assertEqual(Store(self).ask("GET", "improper"), b"$-1\r\n", "none of them was executed")

    def test_a_forbidden_response_topic_ends_the_connection(self):
        # The published rule: a topic that begins with the prefix, also within a level.
        for topic in (INVOKE, NOTIFY, f"{NOTIFY}/x", f"{NOTIFY}X/y", f"{NOTIFY}/00/command/notify/00", "with/+/wildcard", "with/#", ""):
            with self.subTest(topic=topic):
                store = Store(self)
                try:
                    store.send(resp("SET", "forbidden", "v"), ts=clock(), wait=False, ResponseTopic=topic)
                except ValueError:
                    continue
                from_server, code, properties = store.peer.ended()
                self.assertEqual((from_server, code), (True, 0x90))
                self.assertTrue(properties.ReasonString)
        self.assertEqual(Store(self).ask("GET", "forbidden"), b"$-1\r\n")

    def test_other_response_topics_are_the_clients_choice(self):
        for topic in ("answers/here", "a", "statestore/v1/answers"):
            store = Store(self)
            store.peer.subscribe(topic, qos=1)
            correlation, (code, _) = store.send(resp("GET", "nothing"), ResponseTopic=topic)
            self.assertEqual(code, 0)
            answer = store.peer.next()
            self.assertEqual((answer.topic, answer.payload), (topic, b"$-1\r\n"))
            self.assertEqual(answer.properties.CorrelationData, correlation)

    def test_the_reply_has_what_is_left_of_the_requests_expiry(self):
        store = Store(self)
        reply = store.call("GET", "nothing", MessageExpiryInterval=30)
        self.assertIn(reply.message.properties.MessageExpiryInterval, range(25, 31))
        self.assertFalse(hasattr(store.call("GET", "nothing").message.properties, "MessageExpiryInterval"))

    def test_correlation_data_comes_back_byte_for_byte(self):
        store = Store(self)
        for data in (b"\x00", bytes(range(256)), b"x" * 5000):
            correlation, _ = store.send(resp("GET", "nothing"), correlation=data)
            self.assertEqual(store.reply(correlation).payload, b"$-1\r\n")

    def test_many_requests_at_once_are_answered_in_order_of_one_connection(self):
        store, key = Store(self), self.name("key")
        sent = [store.send(resp("SET", key, str(n)), ts=clock(), wait=False)[0] for n in range(500)]
        versions = [order(store.reply(correlation).version) for correlation in sent]
        self.assertEqual(versions, sorted(set(versions)))
        self.assertEqual(store.ask("GET", key), b"$3\r\n499\r\n")

    def test_a_request_that_is_sent_again_is_answered_again_and_not_executed_again(self):
        store, key = Store(self, expiry=300), self.name("key")
        values = {"ResponseTopic": store.response_topic, "CorrelationData": b"once", "MessageExpiryInterval": 60,
                  "UserProperty": [("__ts", clock())]}
        payload = resp("SET", key, "1", "NX")
        store.peer.publish(INVOKE, payload, qos=1, **values)
        first = store.reply(b"once")
        self.assertEqual(first.payload, b"+OK\r\n")
        for is_killed in (False, True):
            if is_killed:
                self.server.kill()
                store.peer.ended()
                self.server.start()
                store.peer.connect(clean=False)
                store.peer.came()
            store.peer.publish_again(999, INVOKE, payload, **values)
            again = store.reply(b"once")
            self.assertEqual((again.payload, again.version), (first.payload, first.version))
        self.assertEqual(store.call("GET", key).version, first.version)


@needs_statehold
class Quota(Case):
    settings = "[state_store]\nkeys_max = 2\n"

    def test_no_more_keys_than_allowed(self):
        store, full = Store(self), b"-ERR the quota has been exceeded\r\n"
        for key in ("a", "b"):
            self.assertEqual(store.ask("SET", key, "1"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", "c", "1"), full)
        self.assertEqual(store.ask("SET", "c", "1", "NX"), full)
        self.assertEqual(store.ask("SET", "a", "2"), b"+OK\r\n", "an old key is no new one")
        self.assertEqual(store.ask("SET", "a", "2", "NX"), b"-1\r\n", "the condition comes first")
        self.assertEqual(store.ask("DEL", "a"), b":1\r\n")
        self.assertEqual(store.ask("SET", "c", "1"), b"+OK\r\n")


@needs_statehold
class DialectSdk(Case):
    settings = "[state_store]\ndialect = \"sdk\"\n"

    def test_everybody_gets_it(self):
        store = Store(self)
        store.ask("SET", "k", "1")
        self.assertEqual(store.ask("SET", "k", "2", "NX"), b":-1\r\n")


@needs_statehold
class DialectPublished(Case):
    settings = "[state_store]\ndialect = \"published\"\n"

    def test_everybody_gets_it(self):
        store = Store(self, sdk=True)
        store.ask("SET", "k", "1")
        self.assertEqual(store.ask("SET", "k", "2", "NX"), b"-1\r\n")


if __name__ == "__main__":
    unittest.main()
