"""Three nodes of `statehold serve` on one machine."""

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import types

from server import binary

NODES = 3


class Cluster:
    """Runs until `stop`. `settings`: what the settings file of each node says."""

    def __init__(self, settings=""):
        self.directory = tempfile.TemporaryDirectory(prefix="statehold-interop-")
        self.nodes = []
        self.settings = os.path.join(self.directory.name, "statehold.toml")
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(settings)
        join = ",".join(f"127.0.0.1:{port}" for port in free_ports(NODES))
        # A node is ready when the cluster is formed, so all are started before one is waited for.
        self.processes = [self._start(number, peers, join) for number, peers in enumerate(join.split(","))]
        for number, process in enumerate(self.processes):
            self.nodes.append(self._ready(number, process))

    def _log(self, number):
        return os.path.join(self.directory.name, f"node{number}.log")

    def _start(self, number, peers, join):
        with open(self._log(number), "ab") as log:
            return subprocess.Popen(
                [binary(), "serve", "--config", self.settings, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--peer-listen", peers,
                 "--join", join, "--cluster-size", str(NODES), "--insecure-peers",
                 "--data-dir", os.path.join(self.directory.name, f"node{number}")],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)

    def _ready(self, number, process):
        for line in process.stdout:
            if line.startswith("statehold ready "):
                addresses = dict(word.split("=", 1) for word in line.split() if "=" in word)
                host, port = addresses["mqtt"].rsplit(":", 1)
                # As a `Peer` takes it.
                return types.SimpleNamespace(host=host, port=int(port), addresses=addresses)
        with open(self._log(number), encoding="utf-8", errors="replace") as log:
            last_words = "".join(log.readlines()[-3:])
        self.stop()
        raise RuntimeError(f"node {number} ended before the cluster was formed: {last_words}")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait(timeout=20)
            process.stdout.close()
        self.directory.cleanup()


def free_ports(count):
    """Nodes have to know each other's before they are started, so the system cannot choose when they listen. They are below those
    that it chooses by itself for other sockets."""
    ports = set()
    while len(ports) < count:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(20_000, 32_000))) as server:
            ports.add(server.getsockname()[1])
    return list(ports)
