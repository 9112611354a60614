"""As much of MQTT 5 as it takes to misbehave, and to fill queues: packets as bytes, and a connection that does nothing by itself."""

import socket
import struct

CONNACK, PUBLISH, PUBACK, SUBACK = 0x20, 0x30, 0x40, 0x90
ANSWER_SECONDS = 60
HERE = "127.0.0.1"


def packet(kind, body):
    length, head = len(body), bytearray([kind])
    while True:
        length, low = divmod(length, 128)
        head.append(low | (0x80 if length else 0))
        if not length:
            return bytes(head) + body


def text(value):
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def connect(client_id, expiry=0, clean=False, keep_alive=600, credentials=()):
    """Credentials are user name and password."""
    properties = b"\x11" + struct.pack(">I", expiry)
    flags = (2 if clean else 0) | (0xC0 if credentials else 0)
    return packet(0x10, text("MQTT") + bytes([5, flags]) + struct.pack(">H", keep_alive)
                  + bytes([len(properties)]) + properties + text(client_id) + b"".join(map(text, credentials)))


def subscribe(topic_filter, qos):
    return packet(0x82, struct.pack(">H", 1) + b"\0" + text(topic_filter) + bytes([qos]))


def publish(topic, payload, packet_id=0, retain=False):
    """QoS 1 with a packet id, else QoS 0."""
    identifier = struct.pack(">H", packet_id) if packet_id else b""
    return packet(PUBLISH | (2 if packet_id else 0) | retain, text(topic) + identifier + b"\0" + payload)


class Connection:
    """A socket from which whole packets are read."""

    def __init__(self, port, source=None, host=HERE):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(ANSWER_SECONDS)
        if source:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((source, 0))
        self.socket.connect((host, port))
        self.inbox = bytearray()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next packet, as its first byte and its body; ConnectionError at the end."""
        while True:
            found = self.split()
            if found:
                return found
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("closed")
            self.inbox += data

    def split(self):
        length, shift = 0, 0
        for at in range(1, min(len(self.inbox), 5)):
            length |= (self.inbox[at] & 0x7F) << shift
            shift += 7
            if self.inbox[at] < 0x80:
                end = at + 1 + length
                if len(self.inbox) < end:
                    return None
                found = self.inbox[0], bytes(self.inbox[at + 1:end])
                del self.inbox[:end]
                return found
        return None

    def expect(self, kind):
        """The next packet of a kind; what comes before it is dropped."""
        while True:
            first, body = self.receive()
            if first & 0xF0 == kind:
                return body

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def connected(port, client_id, source=None, host=HERE, **options):
    """A connection, up to and with CONNACK."""
    connection = Connection(port, source, host)
    connection.send(connect(client_id, **options))
    reason = connection.expect(CONNACK)[1]
    if reason:
        raise ConnectionError(f"CONNACK with {reason:#04x}")
    return connection


def subscribed(port, client_id, topic_filter, qos, **options):
    connection = connected(port, client_id, **options)
    connection.send(subscribe(topic_filter, qos))
    connection.expect(SUBACK)
    return connection


def source(number):
    """One address has about 28,000 ports; the loopback network has many addresses."""
    return f"127.0.0.{2 + number % 50}"
