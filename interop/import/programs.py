"""Programs that are imported from, each started for one test case at a port that was free a moment ago."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from server import binary

# Daemons are there, and not on the path of users.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def needs(*names):
    """Leaves a test out, with a word, where one of these programs is not installed."""
    missing = [name for name in names if not shutil.which(name, path=PATH)]
    if missing:
        print(f"SKIPPED: {', '.join(missing)} not found: nothing is imported from it")
    return unittest.skipIf(missing, f"without {', '.join(missing)}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, "PATH": PATH, **options.pop("env", {})}, **options).stdout


class Program:
    """A program with a directory of its own, which answers when this returns."""

    def __init__(self, command, answers, **environment):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="statehold-import-"))
        self.command, self.answers, self.environment = command, answers, environment
        self.start()

    def start(self):
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            self.command(self.directory), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, "PATH": PATH, **self.environment})
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                self.answers()
                return
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.directory / "log").read_text(encoding="utf-8"))
            time.sleep(0.05)

    def end(self):
        """The orderly way: what it saves at its end is saved."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.log.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory)


def statehold(server, *arguments, env=None):
    """Runs a command against a server; its exit code, and what it wrote."""
    environment = {**os.environ, "STATEHOLD_HOST": server.host, "STATEHOLD_PORT": str(server.port), **(env or {})}
    ran = subprocess.run([binary(), *arguments], capture_output=True, timeout=120, env=environment)
    return ran.returncode, ran.stdout, ran.stderr.decode()
