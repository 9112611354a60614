"""Nodes as machines: each `statehold serve` in a network namespace, on a disk and with a clock of its own, all of which can be disturbed.

Everything is made inside of namespaces of this process (`enter`), so that nothing is left behind when it ends, however it ends. The network is
a bridge, to which each node has a wire; what a node does not hear is dropped in its own namespace (nft), so that a split can have one
direction. Delay and slow wires are those of `tc`.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from servers import statehold

# Not everybody's PATH has the programs that are used here.
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
INSIDE = "STATEHOLD_FAULTS_INSIDE"
HUB, NETWORK = "10.77.0.254", "10.77.0"
MQTT_PORT, PEER_PORT, ADMIN_PORT = 1883, 7000, 8080
DISK_BYTES = 1 << 30
FILLER = "filler"
# A node that has lost much has to be told it; a machine that builds at the same time is slow.
READY_SECONDS = 90
STOP_SECONDS = 60
FAKETIME = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
            "/usr/lib64/faketime/libfaketimeMT.so.1")


def quietly(*command):
    """Whether the command went well."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def must(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def unshare():
    """The command that starts another one in namespaces of its own."""
    mine = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return mine if os.geteuid() == 0 else [*mine, "--user", "--map-root-user"]


def missing():
    """What this machine does not have, or does not let one do; None if nothing is missing."""
    for program in ("unshare", "ip", "nft", "tc"):
        if not shutil.which(program):
            return f"there is no {program}"
    probe = ("mount -t tmpfs none /run && ip netns add probe && ip link add probe1 type veth peer name probe2 netns probe && "
             "ip link add probe3 type bridge && ip netns exec probe nft add table inet probe")
    if not quietly(*unshare(), "sh", "-c", probe):
        return "network namespaces with veth, bridges and nft cannot be made here"
    return None


def enter():
    """Goes on inside of the namespaces, as the same program with the same arguments."""
    if os.environ.get(INSIDE):
        must("mount", "-t", "tmpfs", "none", "/run")
        return
    os.environ[INSIDE] = "1"
    command = unshare()
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


class Disk:
    """A directory, on a file system of its own where that can be made."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir()
        image = directory.with_suffix(".img")
        with open(image, "wb") as file:
            file.truncate(DISK_BYTES)
        # Nothing is asked about it, and nothing of it has to survive this run.
        self.can_freeze = (quietly("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", str(image))
                           and quietly("mount", "-o", "loop", str(image), str(directory)))
        if not self.can_freeze:
            image.unlink()

    def freeze(self, seconds):
        """Nothing is written for so long. The thaw does not depend on this process."""
        return subprocess.Popen(["sh", "-c", f"fsfreeze -f {self.directory}; sleep {seconds}; fsfreeze -u {self.directory}"])


    def fill(self):
        """Takes all space that is left."""
        left = os.statvfs(self.directory)
        quietly("fallocate", "-l", str(left.f_bavail * left.f_frsize), str(self.directory / FILLER))

    def make_room(self):
        (self.directory / FILLER).unlink(missing_ok=True)


class Node:
    """One `statehold serve`. It is started with the same command each time."""

    def __init__(self, number, count, places, groups, directory):
        self.number, self.count, self.places, self.groups = number, count, places, groups
        self.name, self.host = f"node{number}", f"{NETWORK}.{number}"
        self.disk = Disk(directory / self.name)
        self.clock = directory / f"{self.name}.clock"
        self.log = directory / f"{self.name}.log"
        # Who may change the cluster, and what its log had when it was started.
        self.tokens, self.logged = directory / "tokens", 0
        self.process = None
        # How fast all its clocks run, monotonic ones too; 1: as they do on this machine.
        self.pace = 1.0
        self.has_clock = any(os.path.exists(library) for library in FAKETIME)
        self.set_clock(0)
        must("ip", "netns", "add", self.name)
        must("ip", "link", "add", self.wire(), "type", "veth", "peer", "name", "eth0", "netns", self.name)
        must("ip", "link", "set", self.wire(), "master", "hub", "up")
        self.inside("ip", "addr", "add", f"{self.host}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("nft", "add table inet faults; add chain inet faults input { type filter hook input priority 0 ; }")

    def wire(self):
        return f"wire{self.number}"

    def inside(self, *command):
        return must("ip", "netns", "exec", self.name, *command)

    def address(self):
        return f"{self.host}:{MQTT_PORT}"

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def command(self):
        # Snapshots all the time, so that who was away needs one.
        settings = self.log.with_suffix(".toml")
        groups = f"[cluster]\ngroups = {self.groups}\n" if self.count > 1 else ""
        settings.write_text(f'[snapshot]\nlog_bytes_min = "256 KiB"\n[admin]\ntokens = "{self.tokens}"\n{groups}')
        serve = [statehold(), "serve", "--config", str(settings), "--listen", self.address(), "--allow-anonymous", "--admin", f"127.0.0.1:{ADMIN_PORT}",
                 "--data-dir", str(self.disk.directory / "data")]
        if self.count > 1:
            all_nodes = ",".join(f"{NETWORK}.{number}:{PEER_PORT}" for number in range(1, self.places + 1))
            certs = self.disk.directory.parent / "certs"
            serve += ["--peer-listen", f"{self.host}:{PEER_PORT}", "--join", all_nodes, "--cluster-size", str(self.count),
                      "--peer-cert", str(certs / f"{self.name}.pem"), "--peer-key", str(certs / f"{self.name}.key"),
                      "--peer-ca", str(certs / "ca.pem")]
        return serve

    def start(self):
        environment = dict(os.environ, STATEHOLD_HOST=self.host)
        for library in FAKETIME:
            if os.path.exists(library):
                environment |= {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_CACHE_DURATION": "1",
                                "FAKETIME_DONT_RESET": "1"}
                if self.pace == 1:
                    environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
                break
        with open(self.log, "ab") as log:
            self.logged = log.tell()
            self.process = subprocess.Popen(["ip", "netns", "exec", self.name, *self.command()], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env=environment)

    def wait_ready(self):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            self.check_alive()
            if self.says("statehold ready "):
                return
            time.sleep(0.05)
        raise SystemExit(f"bench: {self.name} is not ready after {READY_SECONDS} s\n{self.last_words()}")

    def says(self, text):
        """Whether its log has this since it was started."""
        with open(self.log, errors="replace") as log:
            log.seek(self.logged)
            return text in log.read()

    def check_alive(self):
        if not self.is_up():
            code = self.process.returncode if self.process else None
            raise SystemExit(f"bench: {self.name} ended by itself, with {code}\n{self.last_words()}")

    def last_words(self):
        return "\n".join([f"--- {self.name}:", *self.log.read_text(errors="replace").splitlines()[-15:]])

    def kill(self):
        if self.is_up():
            self.process.kill()
            self.process.wait()

    def terminate(self):
        """Stops it in order; what is not over in time is an error."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"bench: {self.name} does not stop\n{self.last_words()}") from None
        if code:
            raise SystemExit(f"bench: {self.name} stopped with {code}\n{self.last_words()}")

    def set_clock(self, seconds):
        """It goes wrong by so much from now on, within a second."""
        new = self.clock.with_suffix(".new")
        pace = "" if self.pace == 1 else f" x{self.pace:.6f}"
        new.write_text(f"{seconds:+.3f}{pace}\n")
        new.rename(self.clock)

    def drift(self, millionths):
        """From its next start on all its clocks run fast or slow by so much."""
        self.pace = 1 + millionths / 1_000_000
        self.set_clock(0)

    def wipe(self):
        """Everything that it had on its disk is lost."""
        shutil.rmtree(self.disk.directory / "data")

    def peer_address(self):
        return f"{self.host}:{PEER_PORT}"

    def cluster(self, token, *words):
        """Asks it of the cluster, or to change it. Whether that is done, and what it says."""
        command = ["ip", "netns", "exec", self.name, statehold(), "cluster", *words, "--admin", f"http://127.0.0.1:{ADMIN_PORT}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=dict(os.environ, STATEHOLD_ADMIN_TOKEN=token))
        return done.returncode == 0, (done.stdout or done.stderr).strip()

    def metrics(self, token):
        """{name with labels: value}; empty if it does not answer."""
        ask = (f"import urllib.request as u; r = u.Request('http://127.0.0.1:{ADMIN_PORT}/metrics', headers={{'Authorization': 'Bearer {token}'}}); "
               "print(u.urlopen(r, timeout=2).read().decode())")
        done = subprocess.run(["ip", "netns", "exec", self.name, sys.executable, "-c", ask], capture_output=True, text=True)
        lines = (line.rsplit(" ", 1) for line in done.stdout.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def leads(self, token):
        """How many groups it leads."""
        return sum(value for name, value in self.metrics(token).items() if name.startswith("statehold_log_leader"))

    def deaf_to(self, others, percent=100):
        """Does not hear these addresses any more, or only some of what they say."""
        some = "" if percent == 100 else f"numgen random mod 100 < {percent} "
        for host in others:
            self.inside("nft", f"add rule inet faults input ip saddr {host} {some}drop")

    def hear_all(self):
        self.inside("nft", "flush chain inet faults input")


class Nodes:
    """All of them, and what can happen to them."""

    def __init__(self, count, groups, directory):
        must("ip", "link", "add", "hub", "type", "bridge")
        must("ip", "addr", "add", f"{HUB}/24", "dev", "hub")
        must("ip", "link", "set", "hub", "up")
        must("ip", "link", "set", "lo", "up")
        self.delays = quietly("tc", "qdisc", "add", "dev", "hub", "root", "netem", "delay", "1ms")
        quietly("tc", "qdisc", "del", "dev", "hub", "root")
        directory = pathlib.Path(directory)
        # There is a machine more than nodes, for one that joins.
        places = count + 1 if count > 1 else count
        if count > 1:
            make_certificates(directory / "certs", places)
        self.token = make_token(directory / "tokens")
        every = [Node(number, count, places, groups, directory) for number in range(1, places + 1)]
        # Those that belong to the cluster, or will; and those that do not.
        self.all, self.spare = every[:count], every[count:]

    def start_all(self, order=None):
        for node in order or self.all:
            node.start()
        for node in self.all:
            node.wait_ready()

    def wait_settled(self):
        """Until each node is responsible, and has copies of all that it is to have: then the next one may be stopped."""
        end, pages = time.monotonic() + READY_SECONDS, []
        while time.monotonic() < end:
            pages = [node.metrics(self.token) for node in self.all]
            running = lambda page: sum(name.startswith("statehold_node_state") and 'state="RUNNING"' in name for name in page)
            if all(running(page) == len(self.all) and page.get("statehold_unmerged_slots") == 0 for page in pages):
                return
            time.sleep(0.1)
        lacking = [page.get("statehold_unmerged_slots") for page in pages]
        raise SystemExit(f"bench: after {READY_SECONDS} s slots are not merged: {lacking}")

    def leader(self):
        """The one that leads most groups; None if nobody says that it leads."""
        leads = [(node.leads(self.token), node.number, node) for node in self.all if node.is_up()]
        best = max(leads, default=(0, 0, None), key=lambda lead: lead[:2])
        return best[2] if best[0] else None

    def change(self, *words, but=None, until=None):
        """Has any node but this one change the cluster, again until one does, or says so."""
        end, said = time.monotonic() + READY_SECONDS, ""
        while time.monotonic() < end:
            for node in self.all:
                if node is but or not node.is_up():
                    continue
                is_done, said = node.cluster(self.token, *words)
                if is_done or until and until in said:
                    return
            time.sleep(0.2)
        raise SystemExit(f"bench: statehold cluster {' '.join(words)}: {said}")

    def take_in(self, node):
        """A node that has no data is to be a member; it need not be one yet."""
        node.start()
        self.change("add", node.peer_address(), "--wait", "0s", but=node)

    def wait_stage(self, node, stage):
        """Until the others say so of the node; None: that it is not there."""
        end, found = time.monotonic() + READY_SECONDS, ""
        while time.monotonic() < end:
            for other in self.all:
                is_told, found = other.cluster(self.token, "status", "--json") if other is not node else (False, "")
                if is_told and stage == {known["address"]: known["stage"] for known in json.loads(found)["nodes"]}.get(node.peer_address()):
                    return
            time.sleep(0.2)
        raise SystemExit(f"bench: {node.name} is not {stage or 'gone'} after {READY_SECONDS} s: {found}\n{node.last_words()}")

    def slow_wire(self, node, chooser):
        """Delay and jitter where this kernel knows them, else a wire that carries little."""
        if self.delays:
            delay = chooser.choice((10, 30, 80))
            kind = ["netem", "delay", f"{delay}ms", f"{delay // 3}ms"]
        else:
            kind = ["tbf", "rate", chooser.choice(("300kbit", "1mbit")), "burst", "4kb", "latency", "300ms"]
        must("tc", "qdisc", "replace", "dev", node.wire(), "root", *kind)
        node.inside("tc", "qdisc", "replace", "dev", "eth0", "root", *kind)
        return " ".join(kind)

    def heal_network(self):
        for node in self.all + self.spare:
            node.hear_all()
            quietly("tc", "qdisc", "del", "dev", node.wire(), "root")
            quietly("ip", "netns", "exec", node.name, "tc", "qdisc", "del", "dev", "eth0", "root")

    def stop(self):
        for node in self.all + self.spare:
            with contextlib.suppress(ProcessLookupError):
                if node.is_up():
                    node.process.send_signal(signal.SIGCONT)
                node.kill()
            if node.disk.can_freeze:
                quietly("fsfreeze", "-u", str(node.disk.directory))
                quietly("umount", str(node.disk.directory))


def make_token(tokens):
    """A token of the admin pages that may change the cluster."""
    made = subprocess.run([statehold(), "admin-token", "ops", "--scope", "write"], capture_output=True, text=True, check=True)
    tokens.write_text(made.stdout)
    return made.stderr.split()[-1]


def make_certificates(directory, count):
    """An authority, and a certificate for each node."""
    must(statehold(), "certs", "ca", "--out", str(directory))
    for number in range(1, count + 1):
        must(statehold(), "certs", "node", "--out", str(directory), f"node{number}", f"{NETWORK}.{number}")

