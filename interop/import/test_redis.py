"""Redis, from a server that runs and from the file that it saves."""

import json
import os
import random
import subprocess
import time

from case import Case
from programs import Program, free_port, needs, run, statehold
from server import binary, needs_statehold

KEYS = 3_000


@needs_statehold
@needs("redis-server", "redis-cli")
class Redis(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis_port = free_port()
        cls.redis = Program(
            lambda directory: ["redis-server", "--port", str(cls.redis_port), "--save", "", "--dir", str(directory)],
            lambda: cls.cli("ping"))
        cls.addClassCleanup(cls.redis.stop)
        draw = random.Random(7)
        # Bytes that are no text, numbers, what is compressed, and nothing at all.
        values = [lambda: b"", lambda: str(draw.randrange(-2**40, 2**40)).encode(), lambda: draw.randbytes(draw.randrange(5_000)),
                  lambda: draw.randbytes(3) * draw.randrange(2_000)]
        cls.strings = {f"k/{number}".encode(): draw.choice(values)() for number in range(KEYS)}
        cls.strings[b"large"] = draw.randbytes(900_000)
        commands = b"".join(cls.resp(b"SET", key, value) for key, value in cls.strings.items())
        for kind in range(700):
            commands += cls.resp(b"HSET", b"hash/%d" % kind, b"f", b"v" * (kind % 100))
        cls.expiring = {b"k/%d" % number: 3_600_000 + number for number in range(0, KEYS, 10)}
        commands += b"".join(cls.resp(b"PEXPIRE", key, b"%d" % left) for key, left in cls.expiring.items())
        run("redis-cli", "-p", str(cls.redis_port), "--pipe", input=commands)
        cls.cli("config", "set", "requirepass", "pencil")
        cls.cli("-n", "5", "set", "elsewhere", "1")

    @staticmethod
    def resp(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    @classmethod
    def cli(cls, *arguments):
        return run("redis-cli", "-p", str(cls.redis_port), *arguments, env={"REDISCLI_AUTH": "pencil"})

    def imported(self, *arguments):
        code, out, err = statehold(self.server, "import", "redis", "--json", *arguments, env={"REDISCLI_AUTH": "pencil"})
        self.assertEqual(code, 1, err)
        return json.loads(out)

    def compare(self, prefix):
        """All strings are here, byte for byte, and some of them expire when they do there."""
        draw = random.Random(11)
        listed = statehold(self.server, "scan", f"{prefix}*")[1].split()
        self.assertEqual(set(listed), {prefix.encode() + key for key in self.strings})
        for key in [b"large", *draw.sample(sorted(self.strings), 150)]:
            code, value, err = statehold(self.server, "get", prefix + key.decode())
            self.assertEqual((code, value), (0, self.strings[key]), f"{key}: {err}")

    def test_a_file(self):
        path = self.redis.directory / "dump.rdb"
        self.cli("save")
        report = self.imported("--rdb", str(path), "--prefix", "=file/")
        self.compare("file/")
        self.assertEqual(report["carried_over"]["keys"]["count"], KEYS + 1)
        reasons = {one["reason"]: one["count"] for one in report["left_out"]}
        self.assertEqual(reasons, {"a hash": 700, "in database 5 (import it with --db 5)": 1})
        self.compare("file/")

    def test_a_server_that_runs(self):
        report = self.imported("--from", f"redis://127.0.0.1:{self.redis_port}", "--prefix", "=live/")
        self.assertEqual(report["carried_over"]["keys"]["count"], KEYS + 1)
        self.assertEqual([(one["reason"], one["count"]) for one in report["left_out"]], [("a hash", 700)])
        self.assertIn("other databases have keys as well, which are not read: 5", report["notes"][0])
        self.compare("live/")

    def test_expiry_comes_over_to_the_moment(self):
        self.cli("-n", "9", "set", "short", "1", "px", "1500")
        self.cli("-n", "9", "set", "long", "1", "px", "3600000")
        until = time.monotonic() + 1.5
        code, out, err = statehold(
            self.server, "import", "redis", "--json", "--from", f"redis://127.0.0.1:{self.redis_port}/9", env={"REDISCLI_AUTH": "pencil"})
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["carried_over"]["keys"]["count"], 2)
        while statehold(self.server, "get", "short")[0] == 0:
            self.assertLess(time.monotonic(), until + 20, "it does not expire")
        self.assertGreater(time.monotonic(), until - 0.5, "it expired too early")
        self.assertEqual(statehold(self.server, "get", "long")[0], 0)

    def test_a_server_that_dies_in_the_middle_gets_all_of_it_when_it_is_back(self):
        path = self.redis.directory / "dump.rdb"
        self.cli("save")
        # One request after the other, so that there is a middle.
        importing = subprocess.Popen(
            [binary(), "import", "redis", "--rdb", str(path), "--db", "0", "--prefix", "=middle/", "--inflight", "1", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "STATEHOLD_HOST": self.server.host, "STATEHOLD_PORT": str(self.server.port)})
        while len(statehold(self.server, "scan", "middle/*")[1].split()) < 200:
            self.assertIsNone(importing.poll(), "it is over already")
        self.server.kill()
        self.assertIsNone(importing.poll(), "it is over already")
        self.server.start()
        out, err = importing.communicate(timeout=120)
        self.assertEqual(importing.returncode, 1, err)
        self.assertEqual(json.loads(out)["carried_over"]["keys"]["count"], KEYS + 1)
        self.compare("middle/")

    def test_a_wrong_password_is_told(self):
        code, _, err = statehold(
            self.server, "import", "redis", "--from", f"redis://127.0.0.1:{self.redis_port}", env={"REDISCLI_AUTH": "wrong"})
        self.assertEqual(code, 5)
        self.assertIn("WRONGPASS", err)
        code, _, err = statehold(
            self.server, "import", "redis", "--from", f"redis://127.0.0.1:{self.redis_port}", env={"REDISCLI_AUTH": ""})
        self.assertEqual(code, 5)
        self.assertIn("--from-password-file", err)
