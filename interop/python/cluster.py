"""Three nodes of `statehold serve` on one machine."""

import os
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
        self.processes = [self._start(f"node{number}", peers, join) for number, peers in enumerate(join.split(","))]
        for process in self.processes:
            self.nodes.append(self._ready(process))

    def _start(self, name, peers, join):
        log = open(os.path.join(self.directory.name, f"{name}.log"), "ab")
        with log:
            return subprocess.Popen(
                [binary(), "serve", "--config", self.settings, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--peer-listen", peers,
                 "--join", join, "--cluster-size", str(NODES), "--insecure-peers",
                 "--data-dir", os.path.join(self.directory.name, name)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)

    def _ready(self, process):
        for line in process.stdout:
            if line.startswith("statehold ready "):
                addresses = dict(word.split("=", 1) for word in line.split() if "=" in word)
                host, port = addresses["mqtt"].rsplit(":", 1)
                # As a `Peer` takes it.
                return types.SimpleNamespace(host=host, port=int(port), addresses=addresses)
        self.stop()
        raise RuntimeError("a node ended before the cluster was formed")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait(timeout=20)
            process.stdout.close()
        self.directory.cleanup()


def free_ports(count):
    """Nodes have to know each other's before they are started, so the system cannot choose when they listen."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
