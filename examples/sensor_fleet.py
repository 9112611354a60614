#!/usr/bin/env python3
"""A fleet of sensors: retained readings, and wills that say who is gone.

    examples/run sensor_fleet          (or: python sensor_fleet.py 127.0.0.1:1883)

Plain MQTT 5 with paho-mqtt, which the Python client brings along. Each sensor is a process that retains its
readings and that it is there; its will, retained as well, says that it is gone. So whoever subscribes at any
time knows at once what there is, without asking a sensor. One sensor is killed, and the server says so for
it; then it is there again.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.packettypes import PacketTypes

SENSORS = [f"sensor-{number}" for number in range(1, 6)]
FLEET = "example/fleet"
LONG = 30.0


def connected(name: str, address: str, will: str | None = None) -> mqtt.Client:
    """A client that runs in the background."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
    if will:
        client.will_set(will, "gone", qos=1, retain=True)
    host, _, port = address.rpartition(":")
    client.connect(host.strip("[]"), int(port), keepalive=10)
    client.loop_start()
    return client


def sensor(name: str, address: str) -> None:
    """Says that it is there, and what it measures, until it is stopped."""
    status = f"{FLEET}/{name}/status"
    client = connected(name, address, will=status)
    client.publish(status, "there", qos=1, retain=True).wait_for_publish(LONG)
    properties = Properties(PacketTypes.PUBLISH)
    # Nobody should take a reading of an hour ago for the weather.
    properties.MessageExpiryInterval = 3_600
    measured = 20.0
    while True:
        measured += 0.1
        topic, reading = f"{FLEET}/{name}/temperature", f"{measured:.1f}"
        client.publish(topic, reading, qos=1, retain=True, properties=properties).wait_for_publish(LONG)
        time.sleep(0.2)


class Overview:
    """Who is there, and what they measure, as far as a client has heard."""

    def __init__(self, name: str, address: str) -> None:
        self.status: dict[str, str] = {}
        self.readings: dict[str, str] = {}
        self._heard: queue.Queue[tuple[str, str, str]] = queue.Queue()
        self._client = connected(name, address)
        self._client.on_message = self._hear
        self._client.subscribe(f"{FLEET}/+/+", qos=1)

    def _hear(self, _client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
        _, name, what = message.topic.rsplit("/", 2)
        self._heard.put((name, what, message.payload.decode()))

    def until(self, status: dict[str, str]) -> None:
        """Until the sensors are so, and each has a reading."""
        end = time.monotonic() + LONG
        while self.status != status or len(self.readings) < len(status):
            name, what, value = self._heard.get(timeout=max(0.0, end - time.monotonic()))
            if what == "status" and self.status.get(name) != value:
                print(f"  {name} is {value}")
            (self.status if what == "status" else self.readings)[name] = value

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def start(name: str, address: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--sensor", name, address])


def main(address: str) -> None:
    fleet = {name: start(name, address) for name in SENSORS}
    there = dict.fromkeys(SENSORS, "there")
    overview = Overview("overview", address)
    try:
        overview.until(there)
        print("  (sensor-3 is killed: it says nothing any more, and the server says so)")
        fleet["sensor-3"].kill()
        overview.until({**there, "sensor-3": "gone"})

        print("  (somebody else comes later, and knows it at once)")
        late = Overview("late", address)
        late.until({**there, "sensor-3": "gone"})
        print("  last readings:", ", ".join(f"{name} {late.readings[name]}" for name in SENSORS))
        late.close()

        print("  (sensor-3 is there again)")
        fleet["sensor-3"].wait()
        fleet["sensor-3"] = start("sensor-3", address)
        overview.until(there)
    finally:
        for process in fleet.values():
            process.kill()
            process.wait()
        overview.close()
    print("Everybody knew who was there, whenever they came.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sensor"]:
        sensor(sys.argv[2], sys.argv[3])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883")
