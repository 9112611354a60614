"""paho behind HAProxy, which says by the PROXY protocol who connects."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
import types
import unittest

from peer import TIMEOUT, Peer
from server import Server, needs_statehold

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")

if not HAPROXY:
    print("SKIPPED: the PROXY protocol with HAProxy, which is not here", flush=True)

SETTINGS = """
[[listeners]]
address = "127.0.0.1:0"
proxy_protocol = true
allow_anonymous = true
[log]
level = "debug"
"""

DEFAULTS = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
"""


class Proxy:
    """HAProxy with a front for each set of options of its `server` line."""

    def __init__(self, server, fronts):
        self.sockets = {}
        lines = [DEFAULTS]
        for name, (host, options) in fronts.items():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            # Bound here, so that nobody has to guess a free port.
            bound = self.sockets[name] = socket.create_server((host, 0), family=family)
            lines.append(f"listen {name}\n  bind fd@{bound.fileno()}\n"
                         f"  server statehold {server.host}:{server.port} {options}\n")
        config = pathlib.Path(server.directory.name, "haproxy.cfg")
        config.write_text("".join(lines), encoding="utf-8")
        self.process = subprocess.Popen(
            [HAPROXY, "-db", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=[bound.fileno() for bound in self.sockets.values()])

    def front(self, name):
        """As a `Peer` takes it."""
        host, port = self.sockets[name].getsockname()[:2]
        return types.SimpleNamespace(host=host, port=port)

    def stop(self):
        self.process.kill()
        self.process.wait()
        for bound in self.sockets.values():
            bound.close()


@needs_statehold
@unittest.skipUnless(HAPROXY, "needs HAProxy")
class BehindHaproxy(unittest.TestCase):
    fronts = {
        "line": ("127.0.0.1", "send-proxy"),
        "binary": ("127.0.0.1", "send-proxy-v2"),
        "fields": ("127.0.0.1", "send-proxy-v2 proxy-v2-options crc32c,unique-id"),
        "checked": ("127.0.0.1", "send-proxy-v2 check inter 50ms"),
        "mute": ("127.0.0.1", ""),
    }

    @classmethod
    def setUpClass(cls):
        cls.server = Server(SETTINGS)
        cls.addClassCleanup(cls.server.stop)
        with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
            cls.fronts = cls.fronts | {"line6": ("::1", "send-proxy"), "binary6": ("::1", "send-proxy-v2")}
        cls.proxy = Proxy(cls.server, cls.fronts)
        cls.addClassCleanup(cls.proxy.stop)

    def logged(self, *texts):
        """Waits for a line of the log in which all of these are."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            for line in self.server.read_log().splitlines():
                if all(text in line for text in texts):
                    return line
            time.sleep(0.01)
        self.fail(f"no line with {texts} in\n{self.server.read_log()}")

    def test_the_log_has_the_address_of_the_client(self):
        for name in self.fronts:
            if name == "mute":
                continue
            with self.subTest(name):
                peer = Peer(self.proxy.front(name), f"behind-{name}")
                self.addCleanup(peer.close)
                host, port = peer.client.socket().getsockname()[:2]
                shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                self.logged(" connected ", f"client_id=behind-{name} ", f"peer={shown} ")
                peer.subscribe(name, qos=1)
                peer.publish(name, b"x" * 100_000, qos=1)
                self.assertEqual(len(peer.next().payload), 100_000)

    def test_a_proxy_that_says_nothing_is_refused(self):
        front = self.proxy.front("mute")
        with socket.create_connection((front.host, front.port), timeout=TIMEOUT) as stream:
            stream.sendall(b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0")
            with contextlib.suppress(ConnectionError):
                self.assertEqual(stream.recv(1), b"")
        self.logged("rejected handshake", "does not begin with a header")
