"""The state store by hand, from its published text alone: RESP payloads, MQTT properties, topics."""

import collections
import itertools
import time

from peer import Peer, user

INVOKE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke"
NOTIFY = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8"

_correlation = itertools.count(1)

Reply = collections.namedtuple("Reply", "payload version message")


def resp(*words):
    """An array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def clock(ahead_ms=0, counter=0, node="CLIENT"):
    """A timestamp of now, or `ahead_ms` later, as a client writes it."""
    return f"{int(time.time() * 1000) + ahead_ms}:{counter}:{node}"


def order(version):
    """A version as something that can be compared."""
    wall, counter, node = version.split(":")
    return int(wall), int(counter), node.encode()


def notification_topic(client_id, key):
    key = key.encode() if isinstance(key, str) else key
    return f"{NOTIFY}/{client_id.encode().hex().upper()}/command/notify/{key.hex().upper()}"


class Store:
    """Requests and their replies over a peer of its own."""

    def __init__(self, case, client_id=None, sdk=False, **options):
        self.case, self.sdk = case, sdk
        self.client_id = client_id or case.name("store")
        self.peer = case.peer(self.client_id, **options)
        self.response_topic = f"clients/{self.client_id}/services/statestore/_any_/command/invoke/response"
        self.peer.subscribe(self.response_topic, qos=1)
        self.notifications = []

    def send(self, payload, ts=None, ft=None, user_properties=(), correlation=None, wait=True, **values):
        """Sends a request. Returns its correlation data and the PUBACK."""
        properties = list(user_properties)
        if self.sdk:
            properties.append(("__protVer", "1.0"))
        if ts is not None:
            properties.append(("__ts", ts))
        if ft is not None:
            properties.append(("__ft", ft))
        if properties:
            values["UserProperty"] = properties
        correlation = correlation or b"request %d" % next(_correlation)
        values.setdefault("ResponseTopic", self.response_topic)
        puback = self.peer.publish(INVOKE, payload, qos=1, wait=wait, CorrelationData=correlation, **values)
        return correlation, puback

    def reply(self, correlation):
        """The reply to a request. Notifications that come before it are kept."""
        while True:
            message = self.peer.next()
            if message.topic == self.response_topic:
                break
            self.notifications.append(message)
        self.case.assertEqual(message.properties.CorrelationData, correlation)
        self.case.assertEqual((message.qos, message.retain), (1, False))
        versions = user(message, "__ts")
        self.case.assertLessEqual(len(versions), 1)
        return Reply(message.payload, versions[0] if versions else None, message)

    def call(self, *words, payload=None, **options):
        """A request and its reply. SET gets a timestamp of now unless it is told otherwise."""
        if words and str(words[0]).upper() == "SET":
            options.setdefault("ts", clock())
        correlation, (code, _) = self.send(payload or resp(*words), **options)
        self.case.assertEqual(code, 0, "the PUBACK of a decided request is a plain success")
        reply = self.reply(correlation)
        self.case.assertEqual(user(reply.message, "__stat"), ["200"])
        self.case.assertEqual(user(reply.message, "__protVer"), ["1.0"])
        self.case.assertIn(getattr(reply.message.properties, "ContentType", None), (None, "application/octet-stream"))
        return reply

    def ask(self, *words, **options):
        """As `call`, the payload of the reply alone."""
        return self.call(*words, **options).payload

    def notification(self):
        """The next notification, kept or to come."""
        return self.notifications.pop(0) if self.notifications else self.peer.next()
