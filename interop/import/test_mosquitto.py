"""Mosquitto: what it keeps at its end."""

import json
import random

import paho.mqtt.client as mqtt
from case import Case
from programs import Program, free_port, needs, run, statehold
from server import needs_statehold

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

        # What is published now waits for each of them, whatever version its client speaks.
        for number in range(20):
            self.assertEqual(statehold(self.server, "pub", f"news/{number}/a", str(number))[0], 0)
            heard = run("mosquitto_sub", "-h", self.server.host, "-p", str(self.server.port), "-c", "-i", f"session-{number}",
                        "-q", "1", "-t", f"news/{number}/#", "-C", "1", "-W", "20")
            self.assertEqual(heard.decode().strip(), str(number))
