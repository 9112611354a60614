"""Mosquitto: what it keeps at its end."""

import json
import random
import subprocess
import unittest

import paho.mqtt.client as mqtt
from case import Case
from programs import Program, free_port, needs, run, statehold
from server import binary, needs_statehold

MESSAGES = 500


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
                         [("a message that waits for a client, or is on its way", 1, ["session-0"])])

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
