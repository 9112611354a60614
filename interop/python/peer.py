"""One paho-mqtt client whose callbacks end in queues, so that a test reads like the conversation."""

import queue
import socket
import itertools

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

# Nothing takes this long: it only ends a test that would wait for ever.
TIMEOUT = 15

_numbers = itertools.count(1)


def properties(packet, **values):
    """Properties of a packet, named as in paho: UserProperty, MessageExpiryInterval, ..."""
    result = Properties(packet)
    for name, value in values.items():
        setattr(result, name, value)
    return result


def publish_properties(**values):
    return properties(PacketTypes.PUBLISH, **values)


class Closed(Exception):
    """The server ended the connection while a test waited for something else."""


class Peer:
    def __init__(self, server, client_id="", version=5, clean=True, expiry=None, will=None, keep_alive=30,
                 connect=True, manual_ack=False, credentials=None, **connect_properties):
        self.version, self.keep_alive, self.clean = version, keep_alive, clean
        self.server, self.client_id = server, client_id
        if expiry is not None:
            connect_properties["SessionExpiryInterval"] = expiry
        self.connect_properties = properties(PacketTypes.CONNECT, **connect_properties) if version == 5 else None
        options = {"clean_session": clean} if version != 5 else {}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id,
            protocol=paho.MQTTv5 if version == 5 else paho.MQTTv311,
            reconnect_on_failure=False, manual_ack=manual_ack, **options)
        if credentials:
            self.client.username_pw_set(*credentials)
        if will:
            self.client.will_set(**will)
        # More at once than paho's 20, and no more than any server's Receive Maximum.
        self.client.max_inflight_messages_set(100)
        self.connacks, self.messages, self.ends = queue.Queue(), queue.Queue(), queue.Queue()
        self.subacks, self.unsubacks, self.pubacks = {}, {}, {}
        self.client.on_connect = lambda _c, _u, flags, code, props: self.connacks.put((flags, code, props))
        self.client.on_message = lambda _c, _u, message: self.messages.put(message)
        self.client.on_disconnect = self._on_disconnect
        self.client.on_subscribe = lambda _c, _u, mid, codes, props: self._answer(self.subacks, mid, codes, props)
        self.client.on_unsubscribe = lambda _c, _u, mid, codes, props: self._answer(self.unsubacks, mid, codes, props)
        self.client.on_publish = lambda _c, _u, mid, code, props: self._answer(self.pubacks, mid, code, props)
        if connect:
            self.connect()

    def _answer(self, answers, mid, codes, props):
        answers.setdefault(mid, queue.Queue()).put((codes, props))

    def _on_disconnect(self, _client, _userdata, flags, code, props):
        self.ends.put((flags.is_disconnect_packet_from_server, code, props))
        self.messages.put(None)

    def connect(self, clean=None):
        """Connects and returns the reason code of the CONNACK."""
        options = {}
        if self.version == 5:
            options = {"clean_start": self.clean if clean is None else clean, "properties": self.connect_properties}
        self.ends, self.messages = queue.Queue(), queue.Queue()
        self.client.connect(self.server.host, self.server.port, keepalive=self.keep_alive, **options)
        self.client.loop_start()
        flags, self.code, self.connack = self.connacks.get(timeout=TIMEOUT)
        self.session_present = flags.session_present
        return self.code

    def subscribe(self, topic_filter, qos=0, identifier=None, **options):
        """Returns the reason code as a number."""
        if self.version == 5:
            extra = properties(PacketTypes.SUBSCRIBE)
            if identifier:
                extra.SubscriptionIdentifier = identifier
            _, mid = self.client.subscribe(topic_filter, options=SubscribeOptions(qos=qos, **options), properties=extra)
        else:
            _, mid = self.client.subscribe(topic_filter, qos)
        codes, _ = self._wait(self.subacks, mid)
        return codes[0].value

    def unsubscribe(self, topic_filter):
        _, mid = self.client.unsubscribe(topic_filter)
        codes, _ = self._wait(self.unsubacks, mid)
        return codes[0].value if codes else None

    def publish(self, topic, payload=b"", qos=0, retain=False, wait=True, **values):
        """Publishes and, for QoS 1 and 2, waits for the acknowledgement: (reason code, properties)."""
        extra = publish_properties(**values) if self.version == 5 else None
        sent = self.client.publish(topic, payload, qos=qos, retain=retain, properties=extra)
        if qos == 0 or not wait:
            return None
        code, props = self._wait(self.pubacks, sent.mid)
        return code.value, props

    def publish_again(self, mid, topic, payload, **values):
        """Sends a QoS 1 PUBLISH once more, with DUP, as after a lost PUBACK. paho does so only by itself."""
        self.client._send_publish(mid, topic.encode(), payload, 1, False, True, None, publish_properties(**values))

    def _wait(self, answers, mid):
        try:
            answer = answers.setdefault(mid, queue.Queue()).get(timeout=TIMEOUT)
        except queue.Empty:
            raise Closed(f"no answer to {mid}; ends: {list(self.ends.queue)}") from None
        del answers[mid]
        return answer

    def next(self, timeout=TIMEOUT):
        """The next message."""
        message = self.messages.get(timeout=timeout)
        if message is None:
            raise Closed(str(list(self.ends.queue)))
        return message

    def payloads(self, count):
        return [self.next().payload for _ in range(count)]

    def came(self):
        """All that was on its way to this client.

        A message to itself marks the place: what the server had to send before comes before it.
        """
        marker = f"marker/{next(_numbers)}"
        self.subscribe(marker, qos=1)
        self.publish(marker, b"marker", qos=1)
        messages = []
        while (message := self.next()).topic != marker:
            if not message.topic.startswith("marker/"):
                messages.append(message)
        self.unsubscribe(marker)
        return messages

    def ended(self):
        """(whether the server said DISCONNECT, reason code, properties), once the connection is gone."""
        from_server, code, props = self.ends.get(timeout=TIMEOUT)
        self.client.loop_stop()
        return from_server, code.value, props

    def leave(self, reason=None, **values):
        """DISCONNECT."""
        extra = properties(PacketTypes.DISCONNECT, **values) if self.version == 5 else None
        options = {"properties": extra} if self.version == 5 else {}
        if reason is not None:
            from paho.mqtt.reasoncodes import ReasonCode
            options["reasoncode"] = ReasonCode(PacketTypes.DISCONNECT, identifier=reason)
        self.client.disconnect(**options)
        self.ends.get(timeout=TIMEOUT)
        self.client.loop_stop()

    def cut(self):
        """Drops the connection without a DISCONNECT."""
        self.client.socket().shutdown(socket.SHUT_RDWR)
        self.ends.get(timeout=TIMEOUT)
        self.client.loop_stop()

    def close(self):
        """For the end of a test, whatever state it is in."""
        if self.client.socket():
            self.client.disconnect()
        self.client.loop_stop()


def user(message, name):
    """The values of a user property of a message, in order."""
    return [value for key, value in getattr(message.properties, "UserProperty", []) if key == name]
