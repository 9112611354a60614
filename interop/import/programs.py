"""Programs that are imported from, each started for one test case at a port that was free a moment ago."""

import contextlib
import os
import pathlib
import random
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


GIVEN = set()


def free_port():
    """A port for a program that cannot let the system choose when it listens. It is below those that the system chooses by itself for
    other sockets, so nobody takes it before the program does."""
    while True:
        with contextlib.suppress(OSError), socket.create_server(("", random.randrange(20_000, 32_000))) as server:
            port = server.getsockname()[1]
            if port not in GIVEN:
                GIVEN.add(port)
                return port


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
