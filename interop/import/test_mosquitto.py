"""Mosquitto: what it keeps at its end."""

import json
import pathlib
import queue
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import paho.mqtt.client as mqtt
from case import Case
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from programs import Program, free_port, needs, run, statehold
from server import Server, binary, needs_statehold

MESSAGES = 500
# As many are on their way to a client at a time.
IN_FLIGHT = 20


@needs_statehold
@needs("mosquitto", "mosquitto_pub", "mosquitto_sub")
class Mosquitto(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.mosquitto_port = free_port()

        def command(directory):
            settings = f"listener {cls.mosquitto_port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {directory}/\n"
            (directory / "mosquitto.conf").write_text(settings, encoding="utf-8")
            directory.chmod(0o777)
            return ["mosquitto", "-c", str(directory / "mosquitto.conf")]

        cls.mosquitto = Program(command, lambda: cls.client("pub", "-t", "hello", "-n"))
        cls.addClassCleanup(cls.mosquitto.stop)
        draw = random.Random(7)
        cls.retained = {f"plant/{number}/ä": draw.randbytes(draw.randrange(1, 3_000)) for number in range(MESSAGES)}
        publisher = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        publisher.connect("127.0.0.1", cls.mosquitto_port)
        publisher.loop_start()
        under_way = [publisher.publish(topic, payload, qos=1, retain=True) for topic, payload in cls.retained.items()]
        for message in under_way:
            message.wait_for_publish(30)
        publisher.disconnect()
        publisher.loop_stop()
        for number in range(20):
            cls.client("sub", "-c", "-i", f"session-{number}", "-q", "1", "-t", f"news/{number}/#", "-E")
        cls.client("pub", "-t", "news/0/a", "-q", "1", "-m", "waits there")
        cls.mosquitto.end()

    @classmethod
    def client(cls, what, *arguments):
        return run(f"mosquitto_{what}", "-h", "127.0.0.1", "-p", str(cls.mosquitto_port), *arguments)

    def test_its_database(self):
        path = self.mosquitto.directory / "mosquitto.db"
        code, out, err = statehold(self.server, "import", "mosquitto", "--json", "--database", str(path), "--sessions")
        self.assertEqual(code, 1, err)
        report = json.loads(out)
        self.assertEqual(report["carried_over"]["retained_messages"]["count"], MESSAGES)
        self.assertEqual(report["carried_over"]["sessions"]["count"], 20)
        self.assertEqual([(one["reason"], one["count"], one["examples"]) for one in report["left_out"]],
                         [("a message that waits for a client, or is on its way (--queues)", 1, ["session-0"])])

        code, out, _ = statehold(self.server, "sub", "plant/#", "--json", "--count", str(MESSAGES))
        self.assertEqual(code, 0)
        found = (json.loads(line) for line in out.splitlines())
        found = {one["topic"]: one["payload"].encode() if "payload" in one else bytes.fromhex(one["payload_hex"]) for one in found}
        self.assertEqual(found, self.retained)

        # What is there by now stays, where that is asked for, and only that.
        kept, gone = sorted(self.retained)[:2]
        self.assertEqual(statehold(self.server, "pub", kept, "newer", "--retain")[0], 0)
        run("mosquitto_pub", "-h", self.server.host, "-p", str(self.server.port), "-q", "1", "-r", "-t", gone, "-n")
        code, out, err = statehold(self.server, "import", "mosquitto", "--json", "--database", str(path), "--sessions", "--if-absent")
        self.assertEqual(code, 1, err)
        report = json.loads(out)
        self.assertEqual(report["carried_over"], {"retained_messages": {"count": 1, "bytes": len(gone.encode()) + len(self.retained[gone])}})
        present = [one["count"] for one in report["passed_over"] if "--if-absent" in one["reason"]]
        self.assertEqual(present, [MESSAGES - 1 + 20])
        self.assertEqual(statehold(self.server, "sub", kept, "--count", "1")[1].strip(), b"newer")

        # What is published now waits for each of them, whatever version its client speaks.
        for number in range(20):
            self.assertEqual(statehold(self.server, "pub", f"news/{number}/a", str(number))[0], 0)
            heard = run("mosquitto_sub", "-h", self.server.host, "-p", str(self.server.port), "-c", "-i", f"session-{number}",
                        "-q", "1", "-t", f"news/{number}/#", "-C", "1", "-W", "20")
            self.assertEqual(heard.decode().strip(), str(number))


@needs_statehold
@needs("mosquitto")
class Queues(unittest.TestCase):
    """What waits at a real Mosquitto for clients, and what was under way to them when it ended."""

    @classmethod
    def setUpClass(cls):
        tokens = pathlib.Path(tempfile.mkdtemp(prefix="statehold-import-tokens-"))
        cls.addClassCleanup(shutil.rmtree, tokens)
        made = subprocess.run([binary(), "admin-token", "importer", "--scope", "write"], check=True, capture_output=True, text=True)
        (tokens / "tokens").write_text(made.stdout, encoding="utf-8")
        (tokens / "token").write_text(made.stderr.split()[-1], encoding="utf-8")
        cls.token_file = tokens / "token"
        cls.server = Server(f'[admin]\ntokens = "{tokens}/tokens"\n')
        cls.addClassCleanup(cls.server.stop)
        cls.port = free_port()

        def command(directory):
            settings = (f"listener {cls.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {directory}/\n"
                        f"max_queued_messages 10000\nmax_inflight_messages {IN_FLIGHT}\n")
            (directory / "mosquitto.conf").write_text(settings, encoding="utf-8")
            directory.chmod(0o777)
            return ["mosquitto", "-c", str(directory / "mosquitto.conf")]

        def answers():
            with socket.create_connection(("127.0.0.1", cls.port), timeout=5):
                pass

        cls.mosquitto = Program(command, answers)
        cls.addClassCleanup(cls.mosquitto.stop)
        for qos in (1, 2):
            client = Client(cls.port, f"away-{qos}")
            client.subscribe(f"work/{qos}/#", qos, identifier=7 + qos)
            client.end()
        # They answer less than they should: messages are on their way to them when the server ends.
        incomplete = {
            "unacknowledged": (1, Client(cls.port, "unacknowledged", acknowledges=False)),
            "released": (2, Client(cls.port, "released", acknowledges=False)),
            "in-doubt": (2, Client(cls.port, "in-doubt", confirms=False)),
        }
        for qos, client in incomplete.values():
            client.subscribe(f"work/{qos}/#", qos, identifier=7 + qos)
        publisher = Client(cls.port, "publisher")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType, properties.MessageExpiryInterval = "text/plain", 4_000_000
        properties.UserProperty = ("from", "mosquitto")
        cls.payloads = [f"message {number}".encode() * (number + 1) for number in range(MESSAGES // 5)]
        for qos in (1, 2):
            for payload in cls.payloads:
                publisher.publish(f"work/{qos}/a", payload, qos, properties)
        publisher.end()
        # With all that can be on its way to them there, nothing is half answered.
        for _, client in incomplete.values():
            client.wait_until_received(IN_FLIGHT)
            client.lose()
        cls.mosquitto.end()
        cls.report = cls.imported()

    @classmethod
    def imported(cls, *options):
        path = cls.mosquitto.directory / "mosquitto.db"
        code, out, err = statehold(cls.server, "import", "mosquitto", "--json", "--database", str(path), "--queues",
                                   "--admin", f"http://{cls.server.addresses['admin']}", "--token-file", str(cls.token_file), *options)
        if code not in (0, 1):
            raise RuntimeError(err)
        return json.loads(out)

    def check(self, received, qos, payloads):
        self.assertEqual([message.payload for message in received], payloads)
        for message in received:
            self.assertEqual((message.qos, message.topic), (qos, f"work/{qos}/a"))
            self.assertEqual(message.properties.ContentType, "text/plain")
            self.assertEqual(message.properties.UserProperty, [("from", "mosquitto")])
            self.assertEqual(message.properties.SubscriptionIdentifier, [7 + qos])
            self.assertGreater(message.properties.MessageExpiryInterval, 3_990_000)

    def test_the_report_says_what_came_and_what_not(self):
        # With that of the publisher, who waits for nothing.
        self.assertEqual(self.report["carried_over"]["sessions"]["count"], 6)
        (left_out,) = self.report["left_out"]
        self.assertIn("QoS 2 that was on its way", left_out["reason"])
        self.assertEqual((left_out["count"], set(left_out["examples"])), (IN_FLIGHT, {"in-doubt"}))

    def test_whoever_was_away_gets_all_of_it_in_order(self):
        for qos in (1, 2):
            with self.subTest(qos=qos):
                client = Client(self.server.port, f"away-{qos}")
                self.addCleanup(client.end)
                self.assertTrue(client.session_present)
                client.wait_until_received(len(self.payloads))
                self.check(client.received, qos, self.payloads)

    def test_what_was_on_its_way_comes_again_unless_that_could_be_twice(self):
        received = {}
        for client_id in ("unacknowledged", "released", "in-doubt"):
            client = Client(self.server.port, client_id)
            self.addCleanup(client.end)
            client.wait_for(self.payloads[-1])
            received[client_id] = client.received
        self.check(received["unacknowledged"], 1, self.payloads)
        self.assertTrue(received["unacknowledged"][0].dup)
        self.assertFalse(received["unacknowledged"][-1].dup)
        self.check(received["in-doubt"], 2, self.payloads[IN_FLIGHT:])
        # What is released, the client has.
        self.check(received["released"], 2, self.payloads[IN_FLIGHT:])
        total = self.report["carried_over"]["waiting_messages"]["count"]
        self.assertEqual(total, 5 * len(self.payloads) - 2 * IN_FLIGHT)

    def test_z_again_it_changes_nothing(self):
        report = self.imported("--if-absent")
        self.assertEqual(report["carried_over"], {})
        self.assertEqual([one["count"] for one in report["passed_over"] if "--if-absent" in one["reason"]], [6])


class Client:
    """A client whose session lasts."""

    def __init__(self, port, client_id, acknowledges=True, confirms=True):
        self.received, self.news = [], threading.Condition()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, manual_ack=not acknowledges)
        self.client.on_message = self.on_message
        if not confirms:
            # PUBREC, of what has come.
            self.client._send_pubrec = lambda mid: self.on_message(None, None, mid) or mqtt.MQTT_ERR_SUCCESS
        connected = queue.Queue()
        self.client.on_connect = lambda client, data, flags, code, properties: connected.put((flags, code))
        self.subscribed = queue.Queue()
        self.client.on_subscribe = lambda client, data, mid, codes, properties: self.subscribed.put(codes)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600
        self.client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self.client.loop_start()
        flags, code = connected.get(timeout=30)
        if code.is_failure:
            raise RuntimeError(code)
        self.session_present = flags.session_present

    def on_message(self, client, data, message):
        with self.news:
            self.received.append(message)
            self.news.notify_all()

    def subscribe(self, topic, qos, identifier):
        properties = Properties(PacketTypes.SUBSCRIBE)
        properties.SubscriptionIdentifier = identifier
        self.client.subscribe(topic, options=SubscribeOptions(qos=qos), properties=properties)
        self.subscribed.get(timeout=30)

    def publish(self, topic, payload, qos, properties):
        self.client.publish(topic, payload, qos, properties=properties).wait_for_publish(30)

    def wait_until_received(self, count):
        with self.news:
            if not self.news.wait_for(lambda: len(self.received) >= count, timeout=60):
                raise RuntimeError(f"{len(self.received)} of {count} messages")

    def wait_for(self, payload):
        with self.news:
            if not self.news.wait_for(lambda: any(message.payload == payload for message in self.received), timeout=60):
                raise RuntimeError(f"{len(self.received)} messages, and not the one")

    def end(self):
        self.client.disconnect()
        self.client.loop_stop()

    def lose(self):
        self.client.socket().shutdown(socket.SHUT_RDWR)
        self.client.loop_stop()


@needs_statehold
@needs("mosquitto", "mosquitto_pub", "mosquitto_sub", "mosquitto_passwd")
class Settings(unittest.TestCase):
    """A real Mosquitto and a Statehold that was started with what its settings became, side by side."""

    def test_both_let_in_and_allow_the_same(self):
        port, new_port = free_port(), free_port()

        def command(directory):
            directory.chmod(0o755)
            settings = (f"listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {directory}/pw\nacl_file {directory}/acl\n"
                        "max_inflight_messages 30\nlog_dest stderr\n")
            (directory / "mosquitto.conf").write_text(settings, encoding="utf-8")
            (directory / "acl").write_text(
                "user ann\ntopic readwrite plant/#\ntopic read logs/+\nuser bob\ntopic write logs/+\npattern readwrite own/%u/%c/#\n", encoding="utf-8")
            for flags, name in ((["-c"], "ann"), ([], "bob")):
                run("mosquitto_passwd", *flags, "-b", str(directory / "pw"), name, "pencil")
            (directory / "pw").chmod(0o644)
            return ["mosquitto", "-c", str(directory / "mosquitto.conf")]

        def publish(at, name, topic, client_id="c", password="pencil"):
            return run("mosquitto_pub", "-h", "127.0.0.1", "-p", str(at), "-V", "5", "-q", "1", "-i", client_id, "-u", name, "-P", password,
                       "-t", topic, "-m", "x", "-d")

        mosquitto = Program(command, lambda: publish(port, "ann", "plant/ready"))
        self.addCleanup(mosquitto.stop)
        directory = mosquitto.directory
        out = directory / "out"
        converted = subprocess.run([binary(), "import", "mosquitto", "--config", str(directory / "mosquitto.conf"), "--output", str(out), "--json"],
                                   capture_output=True, timeout=60)
        self.assertEqual(converted.returncode, 1, converted.stderr)
        told = json.loads(converted.stdout)
        self.assertEqual(told["users_without_password"], ["ann", "bob"])
        for name in told["users_without_password"]:
            run(binary(), "passwd", str(out / "clients.passwd"), name, input=b"pencil\n")
        settings = out / "statehold.toml"
        settings.write_text(settings.read_text(encoding="utf-8").replace(f":{port}", f":{new_port}"), encoding="utf-8")
        new = Program(
            lambda _: [binary(), "serve", "--config", str(settings), "--data-dir", str(out / "data"), "--admin", "127.0.0.1:0"],
            lambda: publish(new_port, "ann", "plant/ready"))
        self.addCleanup(new.stop)

        def outcome(at, *arguments, **options):
            """The reason code of the PUBACK, or that nobody was let in."""
            try:
                told = publish(at, *arguments, **options).decode()
            except subprocess.CalledProcessError as error:
                return "refused" if b"onnection" in error.stderr + error.stdout else error.stderr
            codes = [int(line.split("RC:")[1].rstrip(")")) for line in told.splitlines() if "PUBACK" in line and "RC:" in line]
            # 16: taken, and nobody is subscribed, which not every server says.
            return ["taken" if code in (0, 16) else code for code in codes]

        for arguments in (("ann", "plant/1"), ("ann", "logs/1"), ("ann", "own/ann/c/x"), ("ann", "own/ann/other/x"), ("ann", "own/bob/c/x"),
                          ("bob", "plant/1"), ("bob", "logs/1"), ("bob", "logs/1/2"), ("bob", "own/bob/c/x")):
            with self.subTest(arguments=arguments):
                there = outcome(port, *arguments)
                self.assertEqual(outcome(new_port, *arguments), there)
                self.assertNotEqual(there, [])
        for name, password in (("ann", "wrong"), ("nobody", "pencil")):
            with self.subTest(name=name):
                self.assertEqual(outcome(port, name, "plant/1", password=password), "refused")
                self.assertEqual(outcome(new_port, name, "plant/1", password=password), "refused")
