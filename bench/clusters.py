"""Three nodes on this machine, each started with the same command every time."""

import contextlib
import http.client
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

from servers import free_port, statehold

NODES = 3
WAIT_SECONDS = 120


def until(what, condition):
    """Waits for the condition and gives back what it is."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if found := condition():
                return found
        time.sleep(0.005)
    raise SystemExit(f"bench: {what} takes more than {WAIT_SECONDS} s")


class Cluster:
    """Nodes of a subclass's kind."""

    name, groups = "", 0

    def __init__(self, directory):
        self.directory = pathlib.Path(directory, self.name)
        self.directory.mkdir()
        self.ports = [free_port() for _ in range(NODES)]
        self.peers = [free_port() for _ in range(NODES)]
        self.admins = [free_port() for _ in range(NODES)]
        self.processes = [None] * NODES
        for node in range(NODES):
            self.start(node)
        for node in range(NODES):
            until(f"{self.name}, node {node + 1}", lambda: self.answers(node))

    def start(self, node):
        with open(self.directory / f"log{node}", "ab") as log:
            self.processes[node] = subprocess.Popen(self.command(node), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, node):
        self.processes[node].kill()
        self.processes[node].wait()

    def terminate(self, node):
        self.processes[node].send_signal(signal.SIGTERM)
        self.processes[node].wait(60)

    def stop(self):
        for process in self.processes:
            if process:
                process.kill()
                process.wait()

    def last_words(self):
        lines = [f"--- {self.name}:"]
        for node in range(NODES):
            lines += (self.directory / f"log{node}").read_text(errors="replace").splitlines()[-8:]
        return "\n".join(lines)

    def cpu_seconds(self):
        """What all nodes have used of the processors."""
        ticks = 0
        for process in self.processes:
            # The name in parentheses may contain anything.
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def addresses(self, but=None):
        return [f"127.0.0.1:{port}" for node, port in enumerate(self.ports) if node != but]


class StateholdNodes(Cluster):
    name = "Statehold"

    def command(self, node):
        join = ",".join(f"127.0.0.1:{port}" for port in self.peers)
        return [statehold(), "serve", "--listen", f"127.0.0.1:{self.ports[node]}", "--admin", f"127.0.0.1:{self.admins[node]}",
                "--data-dir", str(self.directory / f"data{node}"), "--peer-listen", f"127.0.0.1:{self.peers[node]}",
                "--join", join, "--cluster-size", str(NODES), "--insecure-peers", *self.settings()]

    def settings(self):
        if not self.groups:
            return []
        file = self.directory / "statehold.toml"
        file.write_text(f"[cluster]\ngroups = {self.groups}\n")
        return ["--config", str(file)]

    def metrics(self, node):
        with contextlib.suppress(OSError, http.client.HTTPException):
            page = urllib.request.urlopen(f"http://127.0.0.1:{self.admins[node]}/metrics", timeout=2).read().decode()
            lines = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
            return {name: float(value) for name, value in lines}
        return {}
