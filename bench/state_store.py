"""As much of the state store's protocol as it takes to ask one thing, and to put keys at fixed times."""

import contextlib
import itertools
import os
import socket
import struct
import time

import mqtt

INVOKE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke"
ANSWER_SECONDS = 5
UNANSWERED_MAX = 1_000
NUMBERS = itertools.count()


def resp(*words):
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


class Client:
    """One connection, up to and with the subscription to its responses."""

    def __init__(self, port):
        # Every run and every connection has a name of its own.
        name = f"bench-{os.getpid()}-{next(NUMBERS)}"
        self.response = f"clients/{name}/services/statestore/_any_/command/invoke/response"
        self.connection = mqtt.Connection(port)
        self.connection.socket.settimeout(ANSWER_SECONDS)
        self.connection.send(mqtt.connect(name, clean=True))
        if self.connection.expect(mqtt.CONNACK)[1]:
            raise ConnectionError("CONNACK with an error")
        self.connection.send(mqtt.subscribe(self.response, 0))
        self.connection.expect(mqtt.SUBACK)

    def close(self):
        self.connection.socket.close()

    def request(self, number, *words):
        """A PUBLISH; the number comes back with the response."""
        stamp = f"{time.time_ns() // 1_000_000}:0:bench"
        properties = (b"\x08" + mqtt.text(self.response) + b"\x09" + struct.pack(">HQ", 8, number)
                      + b"\x26" + mqtt.text("__ts") + mqtt.text(stamp) + b"\x26" + mqtt.text("__protVer") + mqtt.text("1.0"))
        length = bytes([len(properties) & 0x7F | 0x80, len(properties) >> 7]) if len(properties) > 127 else bytes([len(properties)])
        body = mqtt.text(INVOKE) + struct.pack(">H", number % 65_535 + 1) + length + properties + resp(*words)
        return mqtt.packet(mqtt.PUBLISH | 2, body)

    def response_in(self, body):
        """Number and payload of a response: a PUBLISH of QoS 0."""
        at = 2 + struct.unpack(">H", body[:2])[0]
        length, shift = 0, 0
        while True:
            byte = body[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        properties = body[at:at + length]
        # Correlation data are 8 bytes of ours.
        found = properties.index(b"\x09\x00\x08") + 3
        return struct.unpack(">Q", properties[found:found + 8])[0], body[at + length:]

    def ask(self, *words):
        self.connection.send(self.request(1, *words))
        return self.response_in(self.connection.expect(mqtt.PUBLISH))[1]

    def get(self, key):
        """The value, "" if there is none; OSError if it could not be decided."""
        answer = self.ask("GET", key)
        if answer.startswith(b"-ERR"):
            raise ConnectionError(answer.decode())
        return "" if answer == b"$-1\r\n" else answer.split(b"\r\n")[1].decode()

    def set(self, key, value):
        return self.ask("SET", key, value) == b"+OK\r\n"


class Probe(Client):
    """Puts one of some keys every so often, whether those before were answered or not."""

    def __init__(self, port, keys, every_ms):
        super().__init__(port)
        self.keys, self.every = keys, every_ms / 1000
        # (key, when it was sent, when answered), in nanoseconds since the Unix epoch.
        self.answers = []

    def run(self, seconds, is_over=lambda: False):
        sent, number = {}, 0
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            while (now := time.monotonic()) < begun + seconds and not is_over():
                while begun + number * self.every <= now:
                    key = number % self.keys
                    number += 1
                    # One more than the server's Receive Maximum would end the connection.
                    if len(sent) < UNANSWERED_MAX:
                        sent[number] = (key, time.time_ns())
                        self.connection.send(self.request(number, "SET", f"probe:{key}", str(number)))
                self.read_until(begun + number * self.every, sent)

    def read_until(self, end, sent):
        """Takes responses until it is time for the next put."""
        left = end - time.monotonic()
        self.connection.socket.settimeout(max(left, 0.0001))
        try:
            self.connection.inbox += self.received()
        except (socket.timeout, BlockingIOError):
            return
        finally:
            self.connection.socket.settimeout(ANSWER_SECONDS)
        while found := self.connection.split():
            first, body = found
            if first & 0xF0 == mqtt.PUBLISH:
                number, payload = self.response_in(body)
                key, sent_at = sent.pop(number, (0, 0))
                if payload == b"+OK\r\n":
                    self.answers.append((key, sent_at, time.time_ns()))

    def received(self):
        data = self.connection.socket.recv(65536)
        if not data:
            raise ConnectionError("closed")
        return data
