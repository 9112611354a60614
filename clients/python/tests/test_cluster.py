"""Clients of a cluster, each at its own node, take turns with a lock while one node after the other is killed."""

import asyncio
import pathlib
import socket
import subprocess
import tempfile
import unittest

from server import binary  # of interop/python

from statehold import (
    BackoffLimits,
    Client,
    ErrorText,
    Hlc,
    Lock,
    Options,
    Reconnect,
    RefusedByStore,
    StateStore,
    StoreError,
    TimedOut,
)

# Nothing takes this long: it only ends a test that would wait for ever.
PATIENCE = 60


class Cluster:
    """Three nodes on this machine, which keep their addresses and data when they are killed and started again."""

    def __init__(self, directory: str) -> None:
        self.directory = pathlib.Path(directory)
        ports = free_ports(6)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:3]]
        self.peers = [f"127.0.0.1:{port}" for port in ports[3:]]
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, node: int) -> None:
        options = {
            "listen": self.addresses[node],
            "admin": "127.0.0.1:0",
            "data-dir": str(self.directory / str(node)),
            "peer-listen": self.peers[node],
            "join": ",".join(self.peers),
            "cluster-size": "3",
        }
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (self.directory / f"{node}.log").open("ab") as log:
            self.nodes[node] = subprocess.Popen(
                [binary(), "serve", "--insecure-peers", *arguments], stdout=subprocess.DEVNULL, stderr=log
            )

    def kill(self, node: int) -> None:
        self.nodes[node].kill()
        self.nodes[node].wait()


class Worker:
    """Takes the lock, writes with its token, gives it back, and again."""

    def __init__(self, log: "Log") -> None:
        self.log = log
        self.lock: Lock | None = None
        self.turns = 0

    async def work(self, store: StateStore) -> None:
        while True:
            try:
                self.lock = await Lock.acquire(store, "lock", lease=2)
                self.log.taken(self)
                await store.set("protected", "v", fencing=self.lock.token)
                self.turns += 1
                self.log.changed.set()
                await self.lock.release()
            except StoreError as error:
                # What a node that is gone leaves open.
                if not isinstance(error, TimedOut) and not self.has_come_late(error):
                    self.log.surprises.append(error)
            finally:
                self.lock = None

    def has_come_late(self, error: StoreError) -> bool:
        """Its write was on its way until the lock was another one's: what tokens are for."""
        is_lower = isinstance(error, RefusedByStore) and error.reason is ErrorText.FENCING_TOKEN_LOWER
        return is_lower and self.lock is not None and not self.lock.is_held


class Log:
    """What all workers together must never see."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.last_token = Hlc(0, 0, "none")
        self.surprises: list[object] = []
        self.changed = asyncio.Event()

    def taken(self, by: Worker) -> None:
        assert by.lock is not None
        token = by.lock.token
        if token <= self.last_token:
            self.surprises.append(f"the token {token} comes after {self.last_token}")
        self.last_token = token
        if any(worker.lock and worker.lock.is_held for worker in self.workers if worker is not by):
            self.surprises.append("two hold the lock")

    async def until(self, turns: int, *workers: int) -> None:
        """Each of these workers has had so many more turns."""
        goal = {worker: self.workers[worker].turns + turns for worker in workers}
        while any(self.workers[worker].turns < wanted for worker, wanted in goal.items()):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE)


class Clusters(unittest.IsolatedAsyncioTestCase):
    async def test_a_lock_has_one_holder_while_nodes_are_killed(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="statehold-client-")
        self.addCleanup(directory.cleanup)
        cluster, log, tasks, clients = Cluster(directory.name), Log(), [], []
        backoff = BackoffLimits(wait_min=0.05, wait_max=0.2)
        for node, address in enumerate(cluster.addresses):
            cluster.start(node)
            self.addCleanup(cluster.kill, node)
            options = Options(address, reconnect=Reconnect.ALWAYS, backoff=backoff, timeout=5)
            clients.append(asyncio.create_task(Client.connect(options)))
        for client in await asyncio.wait_for(asyncio.gather(*clients), PATIENCE):
            worker = Worker(log)
            log.workers.append(worker)
            tasks.append(asyncio.create_task(worker.work(client.state_store())))
            self.addAsyncCleanup(client.disconnect)
        await log.until(2, 0, 1, 2)
        for node in range(3):
            cluster.kill(node)
            await log.until(5, *{0, 1, 2} - {node})
            cluster.start(node)
            await log.until(5, 0, 1, 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self.assertEqual(log.surprises, [])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
