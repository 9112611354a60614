"""User name and password, as paho and mosquitto_pub send them."""

import contextlib
import os
import pty
import shutil
import subprocess
import tempfile
import unittest

from case import Case
from peer import Peer
from server import binary, needs_statehold

MOSQUITTO_PUB = shutil.which("mosquitto_pub")


@needs_statehold
class Passwords(Case):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="statehold-interop-")
        cls.addClassCleanup(directory.cleanup)
        file = os.path.join(directory.name, "clients.passwd")
        # Not only ASCII: a user name and a password are what a client says they are.
        for name, password in (("pump", "pencil"), ("Füllstand 7", "Bleistift ✎")):
            subprocess.run([binary(), "passwd", file, name], input=f"{password}\n".encode(), stdout=subprocess.DEVNULL, check=True)
        cls.settings = f'''
            [[listeners]]
            address = "127.0.0.1:0"
            authentication = ["password"]
            [authentication.password]
            file = "{file}"
        '''
        super().setUpClass()

    def code(self, credentials, version):
        peer = self.peer(credentials=credentials, version=version, connect=False)
        return peer.connect().value

    def test_who_knows_the_password_is_let_in(self):
        for version in (5, 4):
            for credentials in (("pump", "pencil"), ("Füllstand 7", "Bleistift ✎")):
                with self.subTest(version=version, name=credentials[0]):
                    self.assertEqual(self.code(credentials, version), 0)

    def test_nobody_learns_whether_it_was_the_name_or_the_password(self):
        # paho shows the return code 4 of version 3.1.1 as the reason code that means the same.
        for version in (5, 4):
            for credentials in (("pump", "wrong"), ("nobody", "pencil"), ("pump", None)):
                with self.subTest(version=version, name=credentials):
                    self.assertEqual(self.code(credentials, version), 0x86)

    def test_who_says_nothing_is_refused(self):
        for version in (5, 4):
            self.assertEqual(self.code(None, version), 0x87)

    @unittest.skipUnless(MOSQUITTO_PUB, "without mosquitto_pub")
    def test_mosquitto_pub_gets_in_by_user_name_and_password(self):
        topic = self.name("topic")
        listener = Peer(self.server, self.name("listener"), credentials=("pump", "pencil"))
        self.addCleanup(listener.close)
        listener.subscribe(topic, qos=1)
        for version in ("mqttv5", "mqttv311"):
            def publish(password):
                return subprocess.run(
                    [MOSQUITTO_PUB, "-h", self.server.host, "-p", str(self.server.port), "-V", version, "-q", "1", "-t", topic,
                     "-m", version, "-u", "Füllstand 7", "-P", password], capture_output=True, timeout=20, check=False)
            self.assertEqual(publish("Bleistift ✎").returncode, 0)
            self.assertEqual(listener.next().payload, version.encode())
            self.assertNotEqual(publish("Bleistift").returncode, 0)


@needs_statehold
class Asked(unittest.TestCase):
    """`statehold passwd` at a terminal."""

    def type(self, *words):
        """What the command ends with, and all that the terminal shows."""
        with tempfile.TemporaryDirectory(prefix="statehold-interop-") as directory:
            process, terminal = pty.fork()
            if process == 0:
                os.execv(binary(), [binary(), "passwd", os.path.join(directory, "clients.passwd"), "pump"])
            shown = b""
            for number, word in enumerate(words):
                # Before the question nothing is typed: the terminal would still show it.
                while shown.count(b": ") <= number:
                    shown += os.read(terminal, 1024)
                os.write(terminal, word)
            with contextlib.suppress(OSError):
                while more := os.read(terminal, 1024):
                    shown += more
            os.close(terminal)
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.decode()

    def test_what_is_typed_is_not_shown_and_can_be_taken_back(self):
        status, shown = self.type("penä\x7fcil\r".encode(), b"pencil\r")
        self.assertEqual((status, shown.split()), (0, ["Password:", "Again:", "added"]))

    def test_another_word_or_an_interrupt_changes_nothing(self):
        status, shown = self.type(b"pencil\r", b"pencl\r")
        self.assertEqual(status, 3)
        self.assertNotIn("penc", shown)
        self.assertEqual(self.type(b"pen\x03")[0], 3)
