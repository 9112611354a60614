"""Messages for clients that are away: how fast they are taken, and how fast they are given when the clients come back.

What a client does must not count. So packets are made before, all have the same length, and whole buffers of them are taken and acknowledged at once.
"""

import selectors
import struct
import time

import mqtt
from servers import INFLIGHT

SESSIONS, PUBLISHERS = 100, 10
PAYLOAD_BYTES = 64
EXPIRY = 3_600
PUBACK = b"\x40\x02"
READ_BYTES = 1 << 18
# Topic, packet id and properties, and what they begin with.
PACKET_ID_AT = 2 + 2 + len("away/000")
PACKET_BYTES = PACKET_ID_AT + 2 + 1 + PAYLOAD_BYTES


def topic(session):
    return f"away/{session:03}"


def go_away(port):
    """Each session subscribes to a topic of its own."""
    for session in range(SESSIONS):
        mqtt.subscribed(port, f"away{session}", topic(session), 1, expiry=EXPIRY).socket.close()


def fill(port, messages):
    """Seconds until all have their PUBACK. Each session's messages are of one publisher."""
    def batches(publisher):
        numbers = range(publisher, messages, PUBLISHERS)
        for first in range(0, len(numbers), INFLIGHT):
            some = numbers[first:first + INFLIGHT]
            yield len(some), b"".join(mqtt.publish(topic(number % SESSIONS), payload(number), place + 1) for place, number in enumerate(some))

    def send_next(publisher):
        """False if there is no more."""
        if not publisher.batches:
            return False
        publisher.owed, batch = publisher.batches.pop()
        publisher.owed *= len(PUBACK) + 2
        publisher.send(batch)
        return True

    def hear(publisher):
        data = publisher.socket.recv(READ_BYTES)
        publisher.owed -= len(data)
        if not data or publisher.owed < 0:
            raise SystemExit("bench: something else than PUBACKs with success")
        return publisher.owed > 0 or send_next(publisher)

    publishers = []
    for number in range(PUBLISHERS):
        publishers.append(mqtt.connected(port, f"publisher{number}"))
        publishers[-1].batches = list(batches(number))[::-1]
    began = time.monotonic()
    for publisher in publishers:
        send_next(publisher)
    all_at_once(publishers, hear)
    return time.monotonic() - began


def drain(port, messages):
    """Lets all sessions come back; seconds until they have got everything."""
    def hear(client):
        data = client.socket.recv(READ_BYTES)
        if not data:
            raise SystemExit("bench: the connection of a client that came back has ended")
        client.inbox += data
        if not client.is_connected:
            connack = client.split()
            if not connack or connack[1][1]:
                raise SystemExit("bench: a client that came back is not let in")
            client.is_connected = True
        whole = len(client.inbox) // PACKET_BYTES
        block = bytes(client.inbox[:whole * PACKET_BYTES])
        del client.inbox[:len(block)]
        acks = bytearray((PUBACK + b"\0\0") * whole)
        for byte in (0, 1):
            acks[len(PUBACK) + byte::len(PUBACK) + 2] = block[PACKET_ID_AT + byte::PACKET_BYTES]
        client.socket.sendall(acks)
        client.blocks.append(block)
        client.owed -= whole
        return client.owed > 0

    began, clients = time.monotonic(), []
    for session in range(SESSIONS):
        client = mqtt.Connection(port)
        client.owed, client.blocks, client.is_connected = len(range(session, messages, SESSIONS)), [], False
        client.send(mqtt.connect(f"away{session}", expiry=EXPIRY))
        clients.append(client)
    all_at_once(clients, hear)
    took = time.monotonic() - began
    for session, client in enumerate(clients):
        check(session, b"".join(client.blocks), messages)
        # The session ends.
        client.send(mqtt.packet(0xE0, struct.pack(">BBBI", 0, 5, 0x11, 0)))
    for client in clients:
        until_closed(client)
    return took


def until_closed(client):
    """Until the server has read everything and has ended the connection. Else who connects next, to another node, goes on with the session, and gets what was not acknowledged there yet."""
    while client.socket.recv(READ_BYTES):
        pass
    client.socket.close()


def check(session, block, messages):
    """Everything has come, in its order, and once."""
    packets = (block[at:at + PACKET_BYTES] for at in range(0, len(block), PACKET_BYTES))
    came = [struct.unpack(">Q", packet[PACKET_ID_AT + 3:PACKET_ID_AT + 11])[0] for packet in packets]
    if came != list(range(session, messages, SESSIONS)):
        wanted = list(range(session, messages, SESSIONS))
        at = next((place for place, (one, other) in enumerate(zip(came, wanted)) if one != other), min(len(came), len(wanted)))
        raise SystemExit(f"bench: session {session} got {len(came)} of {len(wanted)} messages, and the first that it should not have had at place {at}: {came[at:at + 3]}; "
                         f"{len(set(wanted) - set(came))} are missing, {len(came) - len(set(came))} came twice")


def payload(number):
    return struct.pack(">Q", number).ljust(PAYLOAD_BYTES)


def all_at_once(connections, hear):
    """Lets each hear what comes until it wants no more."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while selector.get_map():
            ready = selector.select(mqtt.ANSWER_SECONDS)
            if not ready:
                raise SystemExit("bench: nothing comes any more")
            for key, _ in ready:
                if not hear(key.data):
                    selector.unregister(key.fileobj)
