#!/usr/bin/env python3
"""Clients that misbehave, for bench/robust.

    bench/attacks.py NAME PORT SCALE

Says "under way" when it is, and goes on until it is ended. SCALE is a share of the full numbers below. Every attack but one has a rate
of its own, so that it does not measure how fast Python is, and does not take the processors from the server.
"""

import collections
import contextlib
import itertools
import os
import socket
import sys
import threading
import time

import mqtt


def under_way():
    print("under way", flush=True)


class Pace:
    """So many a second, evenly."""

    def __init__(self, per_second):
        self.interval, self.next = 1 / per_second, time.monotonic()

    def wait(self, count=1):
        self.next += count * self.interval
        pause = self.next - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        else:
            self.next = time.monotonic()


def half_open(port, scale):
    """2,000 connections that say nothing, or half a CONNECT; what the server closes comes again."""
    connecting = mqtt.connect("half")
    open_ones, pace = [], Pace(1000)
    for number in itertools.count():
        connection = mqtt.Connection(port, mqtt.source(number))
        connection.send(connecting[:number % 2 * len(connecting) // 2])
        open_ones.append(connection)
        pace.wait()
        if len(open_ones) == int(2000 * scale):
            if number < 2 * len(open_ones):
                under_way()
            open_ones.pop(0).socket.close()


def byte_by_byte(port, scale):
    """500 connections whose packets come one byte at a time, 5,000 bytes a second together."""
    packets = mqtt.publish("slow", bytes(200))
    connections = [mqtt.connected(port, f"slow-{number}") for number in range(int(500 * scale))]
    pace = Pace(5000)
    under_way()
    for place in itertools.count():
        for connection in connections:
            connection.send(packets[place % len(packets):][:1])
            pace.wait()


def resets(port, scale):
    """1,000 connections a second that end with a reset: at once, after CONNECT, or with a session."""
    pace = Pace(1000 * scale)
    under_way()
    for number in itertools.count():
        with contextlib.suppress(OSError):
            connection = mqtt.Connection(port, mqtt.source(number))
            if number % 3:
                connection.send(mqtt.connect(f"reset-{number % 1000}"))
            if number % 3 == 2:
                connection.expect(mqtt.CONNACK)
            connection.reset()
        pace.wait()


def reconnect_for_ever(port, scale, pace):
    names = [f"back-{number}" for number in range(int(10_000 * scale))]
    for number, name in enumerate(names):
        mqtt.subscribed(port, name, "back", 1, source=mqtt.source(number), expiry=600).socket.close()
    under_way()
    while True:
        back = []
        for number, name in enumerate(names):
            connection = mqtt.Connection(port, mqtt.source(number))
            connection.send(mqtt.connect(name, expiry=600))
            back.append(connection)
            pace()
        for connection in back:
            connection.expect(mqtt.CONNACK)
        for connection in back:
            connection.reset()
            pace()


def reconnects_within_a_second(port, scale):
    """10,000 durable sessions that lose their connections within a second and come back within the next, again and again."""
    reconnect_for_ever(port, scale, Pace(10_000 * scale).wait)


def reconnects(port, scale):
    """The same as fast as one processor can."""
    reconnect_for_ever(port, scale, lambda: None)


def flood(port, qos, per_second):
    """Publishes messages of 100 bytes to `flood`, 100 at a time."""
    publisher, pace = mqtt.connected(port, "flood"), Pace(per_second)
    batch = b"".join(mqtt.publish("flood", bytes(100), number if qos else 0) for number in range(1, 101))
    while True:
        publisher.send(batch)
        for _ in range(100 if qos else 0):
            publisher.expect(mqtt.PUBACK)
        pace.wait(100)


def never_reads(port, scale, qos):
    deaf = []
    for number in range(20):
        deaf.append(mqtt.subscribed(port, f"deaf-{number}", "flood", qos))
    under_way()
    flood(port, qos, 2000 * scale)


def never_reads_qos_0(port, scale):
    """20 subscribers that never read; 2,000 messages a second of QoS 0 for each."""
    never_reads(port, scale, 0)


def never_reads_qos_1(port, scale):
    """The same of QoS 1."""
    never_reads(port, scale, 1)


def never_acknowledges(port, scale):
    """20 subscribers that read and acknowledge nothing; 2,000 messages a second of QoS 1 for each."""
    mute = [mqtt.subscribed(port, f"mute-{number}", "flood", 1) for number in range(20)]

    def read(connection):
        with contextlib.suppress(OSError):
            while connection.socket.recv(65536):
                pass

    for connection in mute:
        connection.socket.settimeout(None)
        threading.Thread(target=read, args=[connection], daemon=True).start()
    under_way()
    flood(port, 1, 2000 * scale)


def takeovers(port, scale):
    """20 clients with one client id, which come back as soon as they are thrown out, 1,000 times a second at most."""
    pace, lock = Pace(1000 * scale), threading.Lock()

    def fight():
        while True:
            with lock:
                pace.wait()
            with contextlib.suppress(OSError):
                connection = mqtt.Connection(port)
                connection.send(mqtt.connect("same", expiry=600))
                while connection.socket.recv(4096):
                    pass

    fighters = [threading.Thread(target=fight, daemon=True) for _ in range(20)]
    for fighter in fighters:
        fighter.start()
    under_way()
    for fighter in fighters:
        fighter.join()


def busy(port, scale):
    """One client that publishes small messages of QoS 0 without a pause, to a topic that nobody gets."""
    del scale
    publisher = mqtt.connected(port, "busy")
    batch = mqtt.publish("nobody", b"") * 20_000
    publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    under_way()
    while True:
        publisher.send(batch)


def failing_logins(port, scale):
    """10,000 connections a second, from 50 addresses, with a user name and a wrong password."""
    guessers = 4

    def guess(first):
        open_ones, pace = collections.deque(), Pace(10_000 / guessers * scale)
        for number in itertools.count(first, guessers):
            with contextlib.suppress(OSError):
                connection = mqtt.Connection(port, mqtt.source(number))
                connection.send(mqtt.connect("", credentials=(f"user-{number % 100}", str(number)), clean=True))
                open_ones.append(connection)
            # Most have their answer by then.
            if len(open_ones) > 100:
                open_ones.popleft().reset()
            pace.wait()

    for first in range(1, guessers):
        if os.fork() == 0:
            guess(first)
    under_way()
    guess(0)


ATTACKS = {function.__name__: function for function in (
    half_open, byte_by_byte, resets, reconnects_within_a_second, reconnects, never_reads_qos_0, never_reads_qos_1,
    never_acknowledges, takeovers, busy, failing_logins)}

# Those at the listener that asks who clients are.
ASKED = {"failing_logins"}


def main():
    name, port, scale = sys.argv[1:]
    ATTACKS[name](int(port), float(scale))


if __name__ == "__main__":
    main()
