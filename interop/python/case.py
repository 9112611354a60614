"""What the test cases share: one server for each class, and clients that are closed after each test."""

import itertools
import unittest

from peer import Peer
from server import Server

_names = itertools.count(1)


class Case(unittest.TestCase):
    # What the configuration file of the server says.
    settings = ""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.settings)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def peer(self, client_id=None, **options):
        """A connected client. Without an id it gets one that no other test has."""
        if client_id is None:
            client_id = self.name("peer")
        peer = Peer(self.server, client_id, **options)
        self.addCleanup(peer.close)
        return peer

    def name(self, stem):
        """A name for a topic, key or client that no other test has."""
        return f"{stem}-{next(_names)}"
