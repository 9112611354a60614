"""A `statehold serve` of one test case's own.

With INTEROP_ADDRESS=HOST:PORT in the environment the tests run against whatever listens there instead, and
those that need Statehold itself are skipped. That is how the tests are tried against other brokers.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FOREIGN = os.environ.get("INTEROP_ADDRESS")

needs_statehold = unittest.skipIf(FOREIGN, "needs Statehold itself")


def binary():
    """STATEHOLD_BIN, else the release build of the main workspace, else its debug build."""
    if named := os.environ.get("STATEHOLD_BIN"):
        return named
    target = HERE.parent.parent / "target"
    release = target / "release" / "statehold"
    return str(release if release.exists() else target / "debug" / "statehold")


class Server:
    """Runs until `stop`; `kill` and `start` in between keep the data and the address.

    With `[[listeners]]` in the settings it is the first of them that clients use, and has another port after `start`.
    """

    def __init__(self, settings=""):
        self.host, self.port = "127.0.0.1", 0
        self.process = None
        if FOREIGN:
            self.host, port = FOREIGN.rsplit(":", 1)
            self.port = int(port)
        else:
            self.listens_as_set = "[[listeners]]" in settings
            self.directory = tempfile.TemporaryDirectory(prefix="statehold-interop-")
            pathlib.Path(self.directory.name, "statehold.toml").write_text(settings, encoding="utf-8")
            self.start()

    def start(self):
        self.log = open(os.path.join(self.directory.name, "server.log"), "ab")
        listen = [] if self.listens_as_set else ["--listen", f"{self.host}:{self.port}"]
        self.process = subprocess.Popen(
            [binary(), "serve", *listen, "--admin", "127.0.0.1:0",
             "--data-dir", os.path.join(self.directory.name, "data"),
             "--config", os.path.join(self.directory.name, "statehold.toml")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if line.startswith("statehold ready "):
                words = (word.split("=", 1) for word in line.split() if "=" in word)
                # The first of each kind.
                self.addresses = {kind: addresses.split(",")[0] for kind, addresses in words}
                self.port = int(self.addresses["mqtt"].rsplit(":", 1)[1])
                return
        self.process.wait()
        raise RuntimeError(f"the server ended before it was ready:\n{self.read_log()}")

    def read_log(self):
        with open(os.path.join(self.directory.name, "server.log"), encoding="utf-8") as log:
            return log.read()

    def kill(self):
        """No warning, no flush: what was acknowledged must be on the disk already."""
        self._end(signal.SIGKILL)

    def terminate(self):
        """The orderly way. Returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number):
        self.process.send_signal(number)
        status = self.process.wait(timeout=20)
        self.process.stdout.close()
        self.log.close()
        return status

    def stop(self):
        if self.process:
            if self.process.poll() is None:
                self.kill()
            self.directory.cleanup()
