"""etcd, over its gateway and from its snapshots."""

import base64
import json
import threading
import time
import urllib.request

from case import Case
from programs import Program, free_port, needs, run, statehold
from server import needs_statehold

KEYS = 10_000


@needs_statehold
@needs("etcd", "etcdctl")
class Etcd(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = f"http://127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        cls.etcd = Program(
            lambda directory: ["etcd", "--data-dir", str(directory / "data"), "--listen-client-urls", cls.url,
                               "--advertise-client-urls", cls.url, "--listen-peer-urls", peers],
            lambda: cls.ctl("endpoint", "health"))
        cls.addClassCleanup(cls.etcd.stop)
        # A hundred keys in each transaction; the last one of each is written again, and one more is deleted.
        for first in range(0, KEYS, 100):
            puts = [cls.put(f"k/{number:05}", f"value {number}") for number in range(first, first + 100)]
            cls.ask("txn", {"success": puts})
        cls.ctl("put", "k/00099", "again")
        cls.ctl("put", "deleted", "1")
        cls.ctl("del", "deleted")
        lease = cls.ctl("lease", "grant", "3600").split()[1].decode()
        cls.ctl("put", "leased", "1", f"--lease={lease}")
        cls.ctl("put", "large", "L" * 100_000)

    @classmethod
    def ctl(cls, *arguments):
        return run("etcdctl", "--endpoints", cls.url, *arguments, env={"ETCDCTL_API": "3"})

    @staticmethod
    def put(key, value):
        encoded = (base64.b64encode(text.encode()).decode() for text in (key, value))
        return {"requestPut": dict(zip(("key", "value"), encoded))}

    @classmethod
    def ask(cls, what, asked):
        request = urllib.request.Request(f"{cls.url}/v3/kv/{what}", json.dumps(asked).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def imported(self, *arguments):
        code, out, err = statehold(self.server, "import", "etcd", "--json", *arguments)
        self.assertEqual(code, 0, err)
        return json.loads(out)["carried_over"]["keys"]["count"]

    def get(self, key):
        return statehold(self.server, "get", key)[1]

    def test_a_cluster_that_is_written_to_meanwhile(self):
        is_over = threading.Event()

        def write():
            while not is_over.is_set():
                self.ask("txn", {"success": [self.put(f"k/{number:05}", "later") for number in range(0, KEYS, 100)]})
                self.ask("txn", {"success": [self.put("l/new", "later")]})

        writer = threading.Thread(target=write)
        before = self.ask("range", {"key": base64.b64encode(b"k/00000").decode()})["kvs"][0]["value"]
        writer.start()
        try:
            count = self.imported("--from", self.url, "--prefix", "=live/", "--only", "k/")
        finally:
            is_over.set()
            writer.join()
        self.assertEqual(count, KEYS)
        # Of one revision: either all of them were written by one transaction, or none.
        found = {self.get(f"live/k/{number:05}") for number in range(0, KEYS, 100)}
        self.assertTrue(found == {b"later"} or len(found) == KEYS // 100 and base64.b64decode(before) in found, found)
        self.assertEqual(self.get("live/k/00099"), b"again")
        self.assertEqual(self.get("live/k/09998"), b"value 9998")

    def test_a_snapshot(self):
        path = self.etcd.directory / "snapshot"
        self.ctl("snapshot", "save", str(path))
        live = self.imported("--from", self.url, "--dry-run")
        self.assertEqual(self.imported("--snapshot", str(path), "--prefix", "=file/"), live)
        self.assertEqual(self.get("file/k/00099"), b"again")
        self.assertEqual(self.get("file/k/05001"), b"value 5001")
        self.assertEqual(self.get("file/large"), b"L" * 100_000)
        self.assertEqual(statehold(self.server, "get", "file/deleted")[0], 1)
        # The whole of it, or nothing.
        path.write_bytes(path.read_bytes()[:-4_096])
        code, _, err = statehold(self.server, "import", "etcd", "--snapshot", str(path))
        self.assertEqual(code, 5)
        self.assertIn("checksum", err)

    def test_leases(self):
        self.assertEqual(self.imported("--from", self.url, "--only", "leased", "--prefix", "=lease/"), 1)
        # A lease of etcd lasts five seconds at least where its election takes so long: it is long over in thirty.
        lease = self.ctl("lease", "grant", "3").split()[1].decode()
        self.ctl("put", "brief", "1", f"--lease={lease}")
        self.assertEqual(self.imported("--from", self.url, "--only", "brief"), 1)
        self.assertEqual(statehold(self.server, "get", "brief")[0], 0)
        until = time.monotonic() + 30
        while statehold(self.server, "get", "brief")[0] == 0:
            self.assertLess(time.monotonic(), until, "it does not expire")
        self.assertEqual(self.get("lease/leased"), b"1")

    def test_z_a_user_with_a_password(self):
        """The last one: from here on nobody else gets in."""
        for command in (("user", "add", "root:pencil"), ("user", "grant-role", "root", "root"), ("role", "add", "reader"),
                        ("role", "grant-permission", "reader", "--prefix=true", "read", "k/"), ("user", "add", "ann:brush"),
                        ("user", "grant-role", "ann", "reader"), ("auth", "enable")):
            self.ctl(*command)
        code, _, err = statehold(self.server, "import", "etcd", "--from", self.url, "--dry-run")
        self.assertEqual(code, 5)
        self.assertIn("--from-username", err)
        arguments = ("import", "etcd", "--json", "--from", self.url, "--from-username", "ann")
        code, _, err = statehold(self.server, *arguments, "--dry-run", env={"ETCDCTL_PASSWORD": "brush"})
        self.assertEqual(code, 5)
        self.assertIn("permission denied", err)
        code, out, err = statehold(self.server, *arguments, "--dry-run", "--only", "k/", env={"ETCDCTL_PASSWORD": "brush"})
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["carried_over"]["keys"]["count"], KEYS)
