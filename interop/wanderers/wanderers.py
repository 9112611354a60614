"""Clients of other people's libraries wander between the nodes of a cluster, while somebody disturbs it.

    wanderers.py --node HOST:PORT ... [--publishers 20] [--rate 10] [--splits] [--js FILE]

Publishers (Paho) number their messages, each on a topic of its own with QoS 1, and send again what was not acknowledged, to whichever node lets them in.
Subscribers (Paho; MQTT.js, if FILE is what peer.js writes) have durable sessions, and go from node to node without a word. The first line says when all are subscribed. On SIGTERM nobody publishes any more; then

- nothing that was acknowledged may be missing at any subscriber (Q1),
- the messages of each publisher come in their order, when those that came before are left out (Q3),
- nothing comes for a subscription that was ended, of what was published after that, and a session is never lost (S1).

With --splits nodes do not hear each other at times, and the sides are brought together again: what one side has got may come behind later messages of the same publisher, and
what was published on the other side to a subscription that was ended may still come. Both are counted then.

What came twice is counted: with QoS 1 it may, and with QoS 2 when the publisher's node is killed (docs/sessions.md). The last line says what was counted, as JSON; the exit status whether all of it holds.
"""

import argparse
import collections
import json
import pathlib
import random
import signal
import sys
import threading
import time

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

EXPIRY, KEEP_ALIVE, CONNECT_SECONDS = 3_600, 5, 5
UNDER_WAY_MAX = 20
SETTLE_SECONDS = 120


class Client:
    """Connects to one node after the other, for ever; `tick` is called all the time while it is connected."""

    def __init__(self, name, nodes, seed):
        self.name, self.nodes, self.random = name, nodes, random.Random(seed)
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
        self.client.connect_timeout = CONNECT_SECONDS
        self.client.on_connect = self.connected
        self.is_connected, self.had_session, self.is_over = False, False, False
        self.connects, self.wrong = 0, []
        self.thread = threading.Thread(target=self.wander, daemon=True)

    def connected(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            return
        self.is_connected = True
        self.connects += 1
        if self.had_session and not flags.session_present:
            self.wrong.append(f"S1: the session of {self.name} is lost")
        self.had_session = True
        self.began(flags.session_present)

    def began(self, session_present):
        pass

    def tick(self):
        pass

    def wander(self):
        """A client that ends by itself would look like one from which everything is kept back."""
        try:
            self.run()
        except Exception as error:
            self.wrong.append(f"the test's own {self.name} ended: {error!r}")
            raise

    def run(self):
        expiry = Properties(PacketTypes.CONNECT)
        expiry.SessionExpiryInterval = EXPIRY
        while not self.is_over:
            host, port = self.random.choice(self.nodes).rsplit(":", 1)
            self.is_connected = False
            try:
                self.client.connect(host, int(port), KEEP_ALIVE, clean_start=False, properties=expiry)
                self.leaves_at = time.monotonic() + self.random.uniform(2, 8)
                while not self.is_over and self.client.loop(0.02) == paho.MQTT_ERR_SUCCESS:
                    if self.is_connected:
                        self.tick()
            except (OSError, ValueError):
                time.sleep(0.1)

    def leave(self):
        """Without a word."""
        socket = self.client.socket()
        # The node may just have said that it closes the connection.
        if socket is not None:
            socket.close()


class Publisher(Client):
    def __init__(self, number, qos, rate, *more):
        super().__init__(f"publisher{number}", *more)
        self.topic, self.qos, self.pause = f"n{qos}/{number}", qos, 1 / rate
        self.next, self.due, self.acknowledged, self.under_way = 0, 0.0, set(), {}
        self.is_silent = False
        self.client.on_publish = self.published

    def published(self, client, userdata, mid, reason, properties):
        number = self.under_way.pop(mid, None)
        if number is not None:
            # The server has forgotten it because it is done: what that is for.
            if reason.is_failure and reason.getName() != "Packet identifier not found":
                self.wrong.append(f"{self.name} was told {reason}")
            self.acknowledged.add(number)

    def tick(self):
        now = time.monotonic()
        if self.is_silent or now < self.due or len(self.under_way) >= UNDER_WAY_MAX:
            return
        self.due = now + self.pause
        sent = self.client.publish(self.topic, str(self.next), self.qos)
        self.under_way[sent.mid] = self.next
        self.next += 1


class Subscriber(Client):
    def __init__(self, name, filters, *more):
        super().__init__(name, *more)
        self.filters, self.is_subscribed = filters, False
        self.received = collections.defaultdict(list)
        self.client.on_message = self.came
        self.client.on_subscribe = self.subscribed

    def began(self, session_present):
        if not self.is_subscribed:
            self.client.subscribe(self.filters)

    def subscribed(self, client, userdata, mid, reasons, properties):
        self.is_subscribed = not any(reason.is_failure for reason in reasons)

    def came(self, client, userdata, message):
        self.received[message.topic].append(int(message.payload))

    def tick(self):
        if self.is_subscribed and time.monotonic() > self.leaves_at:
            self.leave()


class Fickle(Subscriber):
    """Ends its subscription when it has got something, and is told nothing after that."""

    def __init__(self, publisher, *more):
        super().__init__("fickle", [(publisher.topic, 1)], *more)
        self.publisher, self.last = publisher, None
        self.client.on_unsubscribe = self.unsubscribed

    def unsubscribed(self, client, userdata, mid, reasons, properties):
        self.last = self.publisher.next

    def tick(self):
        if self.last is None and len(self.received[self.publisher.topic]) > 10:
            self.client.unsubscribe(self.publisher.topic)
        super().tick()

    def late(self):
        is_late = self.last is not None and any(number > self.last for number in self.received[self.publisher.topic])
        return [f"{self.name} got what was published after it had ended its subscription"] if is_late else []


def of_js(file):
    """What peer.js has written: topic and number of each message, and lost sessions."""
    received, wrong = collections.defaultdict(list), []
    for line in pathlib.Path(file).read_text().splitlines():
        word, _, number = line.partition(" ")
        if word == "lost":
            wrong.append("S1: the session of MQTT.js is lost")
        elif number.isdigit():
            received[word].append(int(number))
    return received, wrong


def missing(publisher, received):
    return publisher.acknowledged.difference(received.get(publisher.topic, ()))


def check(name, publisher, received):
    lost = sorted(missing(publisher, received))
    if lost:
        yield f"Q1: {name} lacks {len(lost)} of {len(publisher.acknowledged)} of {publisher.name}, from {lost[0]} on"


def overtaken(name, publisher, received):
    first = list(dict.fromkeys(received.get(publisher.topic, ())))
    if first != sorted(first):
        at = next(place for place, (one, other) in enumerate(zip(first, first[1:])) if one > other)
        yield f"Q3: {name} got {first[at]} of {publisher.name} before {first[at + 1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="append", required=True)
    parser.add_argument("--publishers", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10, help="messages a second of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--splits", action="store_true", help="nodes do not hear each other at times")
    parser.add_argument("--js", help="what MQTT.js has received")
    options = parser.parse_args()
    seeds = random.Random(options.seed)
    more = lambda: (options.node, seeds.random())
    publishers = [Publisher(number, 2 if number % 5 == 4 else 1, options.rate, *more()) for number in range(options.publishers)]
    subscribers = [Subscriber(f"subscriber{number}", [("n1/#", 1), ("n2/#", 2)], *more()) for number in range(3)]
    fickle = Fickle(publishers[0], *more())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for client in [*subscribers, fickle]:
        client.thread.start()
    while not all(client.is_subscribed for client in subscribers) and not stop.wait(0.1):
        pass
    # MQTT.js says when it is subscribed.
    while options.js and not pathlib.Path(options.js).exists() and not stop.wait(0.1):
        pass
    for client in publishers:
        client.thread.start()
    # From now on what is published is for all of them: what is subscribed to on one side of a split has nothing of what was published on the other one before they meet.
    print("subscribed", flush=True)
    stop.wait()
    for client in publishers:
        client.is_silent = True
    end = time.monotonic() + SETTLE_SECONDS
    js = lambda: of_js(options.js) if options.js else (None, [])
    is_all = lambda received: received is None or not any(missing(publisher, received) for publisher in publishers)
    while time.monotonic() < end and not (
            not any(publisher.under_way for publisher in publishers)
            and all(is_all(subscriber.received) for subscriber in subscribers) and is_all(js()[0])):
        time.sleep(0.5)
    wrong = [text for client in (*publishers, *subscribers, fickle) for text in client.wrong] + js()[1]
    late = fickle.late()
    everybody = [(subscriber.name, subscriber.received) for subscriber in subscribers]
    everybody += [("MQTT.js", js()[0])] if options.js else []
    for publisher in publishers:
        if publisher.under_way:
            wrong.append(f"{publisher.name} was never told what became of {len(publisher.under_way)} messages")
        for name, received in everybody:
            wrong += check(name, publisher, received)
            late += overtaken(name, publisher, received)
    if not options.splits:
        wrong += late
    for text in wrong:
        print(text)
    print(json.dumps({
        "acknowledged": sum(len(publisher.acknowledged) for publisher in publishers),
        "received": {name: sum(map(len, received.values())) for name, received in everybody},
        "twice": {name: sum(len(numbers) - len(set(numbers)) for numbers in received.values()) for name, received in everybody},
        "connects": sum(client.connects for client in (*publishers, *subscribers, fickle)),
        "late": len(late),
        "wrong": len(wrong)}), flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
