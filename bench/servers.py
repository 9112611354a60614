"""What the comparisons share: how servers are started, how the load is run, and how results are told."""

import contextlib
import dataclasses
import os
import pathlib
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_SECONDS = 20
# What is under way from each publisher where messages are measured.
INFLIGHT = 100
# All have to deliver everything, however far subscribers fall behind.
NO_LIMITS = f'[limits]\nqueue_messages_max = 1000000000\nqueue_bytes_max = "8GiB"\ninflight_max = {INFLIGHT * 50}\n'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process, name):
    """Until something accepts connections on the port."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"bench: {name} ended at its start")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"bench: {name} does not listen")


@dataclasses.dataclass
class Measurement:
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int = 0


class Server:
    """One server under test: how it is started."""

    name = ""
    needs = ()

    def __init__(self, directory):
        self.directory = pathlib.Path(directory, self.name.replace(" ", "-").replace(",", ""))
        self.directory.mkdir()
        self.port = free_port()
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.directory / "log", "wb"))
        wait_for(self.port, self.process, self.name)

    def last_words(self):
        code = self.process.poll()
        state = "still runs" if code is None else f"ended with {code}"
        log = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.name} {state}:", *log[-10:]])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def command(self):
        raise NotImplementedError


class Statehold(Server):
    durability = ""

    def command(self):
        return [statehold(), "serve", "--listen", f"127.0.0.1:{self.port}", "--admin", "127.0.0.1:0",
                "--data-dir", str(self.directory / "data"), "--durability", self.durability, *self.settings()]

    def settings(self):
        return []


class StateholdDisk(Statehold):
    """For messages."""

    name, durability = "Statehold", "disk"

    def settings(self):
        file = self.directory / "statehold.toml"
        file.write_text(NO_LIMITS)
        return ["--config", str(file)]


class Mosquitto(Server):
    name, needs = "mosquitto", ("mosquitto",)
    settings = ""

    def command(self):
        file = self.directory / "mosquitto.conf"
        file.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
                        f"max_inflight_messages {INFLIGHT * 50}\n{self.settings.format(directory=self.directory)}")
        return ["mosquitto", "-c", str(file)]


class MosquittoPersistent(Mosquitto):
    name, settings = "mosquitto, persistence", "persistence true\npersistence_location {directory}/\n"


def statehold():
    return os.environ.get("STATEHOLD_BIN") or str(ROOT / "target" / "release" / "statehold")


def build():
    """The release binary, unless STATEHOLD_BIN names one."""
    if not os.environ.get("STATEHOLD_BIN"):
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "statehold"], cwd=ROOT, check=True)


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def chosen(classes, only):
    """Those that are installed, and whose name contains one of the words."""
    words = [word.lower() for word in (only or "").split(",") if word]
    return [server for server in classes
            if (not words or any(word in server.name.lower() for word in words))
            and all(shutil.which(program) for program in server.needs)]


@contextlib.contextmanager
def started(classes, directory):
    """All servers, up; what their logs end with, if something fails."""
    servers = []
    try:
        for server in classes:
            servers.append(server(directory))
        yield servers
    except SystemExit:
        for server in servers:
            print(server.last_words(), file=sys.stderr)
        raise
    finally:
        for server in servers:
            server.stop()


def tell(what, repeat, server, result):
    print(f"{what} #{repeat + 1} {server.name}: {result.per_second:,.0f}/s, p50 {result.p50_ms:.3f} ms, "
          f"p99 {result.p99_ms:.3f} ms, {result.errors} errors", file=sys.stderr)


def cells(runs, against):
    """The cells that all tables share: rate, latencies, ratio."""
    rates = [run.per_second for run in runs]
    rate = statistics.median(rates)
    ratio = f"{rate / statistics.median(run.per_second for run in against):.2f} x" if against else ""
    errors = sum(run.errors for run in runs)
    noted = f" ({errors} errors)" if errors else ""
    return (f"{rate:,.0f} ({min(rates):,.0f} to {max(rates):,.0f}){noted} | {statistics.median(r.p50_ms for r in runs):.2f} | "
            f"{statistics.median(r.p99_ms for r in runs):.2f} | {ratio} |")


def versions(*commands):
    """What was measured, as the programs name themselves."""
    lines = []
    for command in (*commands, [statehold(), "--version"]):
        if shutil.which(command[0]):
            # mosquitto -h ends with status 3, and Redis tells more than its version.
            done = subprocess.run(command, capture_output=True, text=True)
            lines.append((done.stdout or done.stderr).splitlines()[0].split(" sha=")[0].strip())
    return f"{platform.system()}, {os.cpu_count()} cores, servers and load on the same; " + "; ".join(lines)


def write(name, text):
    """Puts the text into docs/benchmarks.md, between the marks of the script."""
    page = ROOT / "docs" / "benchmarks.md"
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    old = page.read_text()
    if begin not in old:
        old += f"\n{begin}\n{end}\n"
    head, _, rest = old.partition(begin)
    page.write_text(f"{head}{begin}\n{text}\n{end}{rest.partition(end)[2]}")
