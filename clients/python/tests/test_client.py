"""The client against a server that runs: the behaviour of the Rust client, test for test, and its examples."""

import asyncio
import os
import pathlib
import runpy
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from server import Server, binary  # of interop/python

from statehold import (
    Client,
    ConnectError,
    Deleted,
    Ended,
    ErrorText,
    Gap,
    HasEnded,
    LeaderElection,
    Lease,
    Lock,
    LossKind,
    Lost,
    Missing,
    NotApplied,
    NotInTime,
    Options,
    OtherValue,
    QueueFull,
    Reconnect,
    RefusedByStore,
    StateStore,
    Stored,
    TimedOut,
    TooLarge,
    ValueDeleted,
    ValueSet,
)

HERE = pathlib.Path(__file__).resolve().parent
# Nothing takes this long: it only ends a test that would wait for ever.
PATIENCE = 20


class Case(unittest.IsolatedAsyncioTestCase):
    settings = ""

    def setUp(self) -> None:
        self.server = Server(self.settings)
        self.addCleanup(self.server.stop)
        self.address = f"{self.server.host}:{self.server.port}"

    @asynccontextmanager
    async def store(self, **options: Any) -> AsyncIterator[StateStore]:
        async with await Client.connect(Options(self.address, **options)) as client:
            yield client.state_store()

    async def again(self) -> None:
        """The server comes back where it was."""
        await asyncio.to_thread(self.server.start)


class Swallowing:
    """Stands between a client and a server. Once it swallows, what the server says next does not arrive, and the
    connection is cut.
    """

    def __init__(self, server: str) -> None:
        self.host, port = server.rsplit(":", 1)
        self.port = int(port)
        self.swallows = False
        self.served: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> str:
        self.listener = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self.listener.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()
        await asyncio.gather(*self.served)

    async def serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        served = asyncio.get_running_loop().create_future()
        self.served.append(served)
        from_server, to_server = await asyncio.open_connection(self.host, self.port)
        pumps = [
            asyncio.create_task(self.pump(from_client, to_server, may_swallow=False)),
            asyncio.create_task(self.pump(from_server, to_client, may_swallow=True)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for writer in (to_client, to_server):
            writer.close()
        await asyncio.gather(*pumps, return_exceptions=True)
        served.set_result(None)

    async def pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, may_swallow: bool) -> None:
        while data := await source.read(65536):
            if may_swallow and self.swallows:
                self.swallows = False
                return
            to.write(data)


class Keys(Case):
    async def test_set_get_delete(self) -> None:
        async with self.store() as store:
            self.assertIsNone(await store.get("k"))
            first = await store.set("k", "v")
            found = await store.get("k")
            assert isinstance(first, Stored)
            assert found is not None
            self.assertEqual((found.value, found.version), (b"v", first.version))
            second = await store.set("k", b"\0\r\n")
            assert isinstance(second, Stored)
            self.assertGreater(second.version, first.version)
            self.assertEqual(await store.vdel("k", "v"), OtherValue(second.version))
            self.assertEqual(await store.vdel("k", b"\0\r\n"), Deleted(second.version))
            self.assertEqual(await store.delete("k"), Missing())

    async def test_conditions(self) -> None:
        async with self.store() as store:
            stored = await store.set("k", "a", if_absent=True)
            assert isinstance(stored, Stored)
            self.assertEqual(await store.set("k", "a", if_absent=True), NotApplied(stored.version))
            self.assertIsInstance(await store.set("k", "b", if_absent_or_equal=True), NotApplied)
            self.assertIsInstance(await store.set("k", "a", if_absent_or_equal=True), Stored)
            self.assertIsInstance(await store.set("k", "b", if_absent_or="x"), NotApplied)
            self.assertIsInstance(await store.set("k", "b", if_absent_or="a", expires_in=60), Stored)
            with self.assertRaises(ValueError):
                await store.set("k", "a", if_absent=True, if_absent_or="x")

    async def test_a_key_expires(self) -> None:
        async with self.store() as store, await store.watch("k") as watch:
            with self.assertRaises(ValueError):
                await store.set("k", "v", expires_in=0)
            await store.set("k", "v", expires_in=0.0001)
            self.assertIsInstance(await anext(watch), ValueSet)
            self.assertIsInstance(await anext(watch), ValueDeleted)
            self.assertIsNone(await store.get("k"))

    async def test_fencing(self) -> None:
        async with self.store() as store:
            old, new = await store.set("token", "1"), await store.set("token", "2")
            assert isinstance(old, Stored)
            assert isinstance(new, Stored)
            await store.set("k", "1", fencing=new.version)
            for token, reason in ((None, ErrorText.FENCING_TOKEN_REQUIRED), (old, ErrorText.FENCING_TOKEN_LOWER)):
                with self.assertRaises(RefusedByStore) as raised:
                    await store.set("k", "2", fencing=token.version if token else None)
                self.assertIs(raised.exception.reason, reason)
            self.assertIsInstance(await store.delete("k", fencing=new.version), Deleted)

    async def test_a_scan_lists_every_key_once(self) -> None:
        async with self.store() as store:
            names = [f"scan/{number:04}" for number in range(1500)]
            await asyncio.gather(*(store.set(name, "") for name in [*names, "other"]))
            found = [key.decode() async for key in store.scan("scan/*")]
            self.assertEqual(sorted(found), names)

    async def test_what_is_wrong_is_refused_with_a_reason(self) -> None:
        async with self.store() as store:
            with self.assertRaises(RefusedByStore) as raised:
                await store.get("")
            self.assertIs(raised.exception.reason, ErrorText.KEY_LENGTH_ZERO)
            with self.assertRaises(RefusedByStore) as raised:
                await store.watch(b"k" * 33_000)
            self.assertIs(raised.exception.reason, ErrorText.KEY_TOO_LONG_TO_WATCH)
            with self.assertRaises(RefusedByStore) as raised:
                _ = [key async for key in store.scan("[")]
            self.assertIs(raised.exception.reason, ErrorText.SYNTAX)


class SmallPackets(Case):
    settings = "[limits]\npacket_size_max = 100000\n"

    async def test_what_is_larger_than_the_server_takes_is_not_sent(self) -> None:
        async with self.store() as store:
            with self.assertRaises(TooLarge) as raised:
                await store.set("k", b"v" * 100_000)
            self.assertEqual(raised.exception.limit, 100_000)
            self.assertIsInstance(await store.set("k", b"v" * 99_000), Stored)


class Transports(Case):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="statehold-client-")
        self.addCleanup(directory.cleanup)
        self.cert, key, self.socket = (os.path.join(directory.name, name) for name in ("cert", "key", "socket"))
        request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
        names = ["-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", key, "-out", self.cert]
        subprocess.run(["openssl", *request.split(), *names, *files], check=True, capture_output=True)
        tls = f'[listeners.tls]\ncert = "{self.cert}"\nkey = "{key}"\n'
        # Any page of a browser on this machine could connect, which has to be wanted.
        websocket = "allow_anonymous = true\n[listeners.websocket]\n"
        self.settings = "".join(
            f'[[listeners]]\naddress = "{address}"\n{more}'
            for address, more in (
                ("127.0.0.1:0", ""),
                ("127.0.0.1:0", tls),
                ("127.0.0.1:0", websocket),
                ("127.0.0.1:0", websocket + tls),
                (f"unix:{self.socket}", ""),
            )
        )
        super().setUp()

    async def test_each_carries_requests_larger_than_its_pieces(self) -> None:
        ports = {kind: address.rsplit(":", 1)[1] for kind, address in self.server.addresses.items()}
        tls = ssl.create_default_context(cafile=self.cert)
        value = os.urandom(300_000)
        for address, context in (
            (f"127.0.0.1:{ports['mqtt']}", None),
            (f"localhost:{ports['mqtts']}", tls),
            (f"ws://127.0.0.1:{ports['ws']}/mqtt", None),
            (f"wss://localhost:{ports['wss']}/mqtt", tls),
            (f"unix:{self.socket}", None),
        ):
            with self.subTest(address):
                async with await Client.connect(Options(address, tls=context)) as client:
                    store = client.state_store()
                    async with await store.watch("k") as watch:
                        await store.set("k", value)
                        event = await anext(watch)
                    assert isinstance(event, ValueSet)
                    self.assertEqual(event.value, value)

    async def test_a_server_that_nobody_vouches_for_is_not_trusted(self) -> None:
        address = f"localhost:{self.server.addresses['mqtts'].rsplit(':', 1)[1]}"
        with self.assertRaises(ConnectError) as raised:
            await Client.connect(Options(address, tls=ssl.create_default_context()))
        self.assertIn("certificate", str(raised.exception))


class Passwords(Case):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="statehold-client-")
        self.addCleanup(directory.cleanup)
        file = os.path.join(directory.name, "clients.passwd")
        subprocess.run([binary(), "passwd", file, "pump"], input=b"pencil\n", capture_output=True, check=True)
        self.settings = (
            '[[listeners]]\naddress = "127.0.0.1:0"\nauthentication = ["password"]\n'
            f'[authentication.password]\nfile = "{file}"\n'
        )
        super().setUp()

    async def test_who_knows_it_is_let_in_and_others_are_told(self) -> None:
        async with self.store(username="pump", password="pencil") as store:
            await store.get("k")
        with self.assertRaises(ConnectError) as raised:
            await Client.connect(Options(self.address, username="pump", password="wrong"))
        self.assertIs(raised.exception.loss.kind, LossKind.REFUSED)


class Connections(Case):
    async def test_requests_and_watches_wait_for_the_server_to_come_back(self) -> None:
        async with self.store() as store, await store.watch("k") as watch:
            self.server.kill()
            # Asked for while nobody is there.
            asked = asyncio.create_task(store.set("k", "v"))
            await self.again()
            self.assertIsInstance(await asked, Stored)
            events = [await anext(watch)]
            if isinstance(events[0], ValueSet):
                events.append(await anext(watch))
            self.assertIn(Gap(), events)
            await store.set("k", "w")
            async for event in watch:
                if isinstance(event, ValueSet) and event.value == b"w":
                    break

    async def test_a_write_whose_reply_was_lost_is_not_executed_twice(self) -> None:
        proxy = Swallowing(self.address)
        async with proxy as address, await Client.connect(address) as client:
            store = client.state_store()
            await store.get("k")
            proxy.swallows = True
            stored = await store.set("k", "v", if_absent=True)
            self.assertFalse(proxy.swallows)
            found = await store.get("k")
            assert isinstance(stored, Stored), "the first outcome, not that of another attempt"
            assert found is not None
            self.assertEqual(found.version, stored.version)

    async def test_a_second_client_with_the_same_id_takes_over_for_good(self) -> None:
        first = await Client.connect(Options(self.address, client_id="same"))
        ended = asyncio.Event()
        first.on_state_change(lambda state: ended.set() if isinstance(state, HasEnded) else None)
        watch = await first.state_store().watch("k")
        async with self.store(client_id="same") as second:
            await asyncio.wait_for(ended.wait(), PATIENCE)
            with self.assertRaises(Ended) as raised:
                await first.state_store().get("k")
            self.assertEqual(raised.exception.loss.reason, 0x8E)
            with self.assertRaises(Ended):
                await anext(watch)
            await second.get("k")

    async def test_without_a_server_connecting_fails_or_waits(self) -> None:
        self.server.kill()
        with self.assertRaises(ConnectError) as raised:
            await Client.connect(self.address)
        self.assertIn(self.address, str(raised.exception))
        waiting = asyncio.create_task(Client.connect(Options(self.address, reconnect=Reconnect.ALWAYS)))
        await self.again()
        async with await waiting as client:
            await client.state_store().get("k")

    async def test_connecting_that_is_given_up_ends_with_nothing_left_behind(self) -> None:
        self.server.kill()
        states: list[str] = []
        is_waiting = asyncio.Event()

        def note(state: object) -> None:
            states.append(type(state).__name__)
            if states[-1] == "Waiting":
                is_waiting.set()

        options = Options(self.address, reconnect=Reconnect.ALWAYS)
        connecting = asyncio.create_task(Client.connect(options, on_state_change=note))
        await asyncio.wait_for(is_waiting.wait(), PATIENCE)
        connecting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await connecting
        self.assertEqual(states, ["Connecting", "Waiting", "HasEnded"])

    async def test_without_reconnecting_the_first_loss_is_the_end(self) -> None:
        async with self.store(reconnect=Reconnect.NEVER) as store, await store.watch("k") as watch:
            self.server.kill()
            with self.assertRaises(Ended):
                await anext(watch)
            with self.assertRaises(Ended):
                await store.get("k")

    async def test_a_request_that_nobody_answers_times_out(self) -> None:
        async with self.store(timeout=0.3) as store:
            self.server.kill()
            with self.assertRaises(TimedOut):
                await store.get("k")

    async def test_disconnecting_fails_what_is_under_way_and_ends_watches(self) -> None:
        client = await Client.connect(self.address)
        store = client.state_store()
        watch = await store.watch("k")
        self.server.kill()
        asked = asyncio.create_task(store.get("k"))
        await asyncio.sleep(0)
        await client.disconnect()
        with self.assertRaises(Ended):
            await asked
        self.assertEqual([event async for event in watch], [])

    async def test_more_requests_and_watches_than_allowed_are_refused_at_once(self) -> None:
        async with self.store(operations_max=2, watches_max=1) as store:
            results = await asyncio.gather(*(store.get(key) for key in "abc"), return_exceptions=True)
            self.assertEqual(results[:2], [None, None])
            self.assertIsInstance(results[2], QueueFull)
            async with await store.watch("k"):
                with self.assertRaises(QueueFull):
                    await store.watch("l")
            await store.watch("l")

    async def test_a_thousand_requests_at_once(self) -> None:
        async with self.store() as store:
            outcomes = await asyncio.gather(*(store.set(f"k{number}", "v") for number in range(1000)))
            self.assertEqual({type(outcome) for outcome in outcomes}, {Stored})


class Watches(Case):
    async def test_one_that_nobody_reads_ends_in_a_gap_and_holds_nothing_up(self) -> None:
        async with self.store(watch_capacity=4) as store, await store.watch("k") as watch:
            for number in range(300):
                await store.set("k", str(number))
            events = [await anext(watch)]
            while events[-1] != Gap():
                events.append(await anext(watch))
            value = b""
            while value != b"299":
                event = await anext(watch)
                assert isinstance(event, ValueSet)
                value = event.value

    async def test_two_watches_of_a_key_see_the_same_and_one_may_end(self) -> None:
        async with self.store() as store, await store.watch("k") as first:
            async with await store.watch("k") as second:
                stored = await store.set("k", "v")
                assert isinstance(stored, Stored)
                for watch in (first, second):
                    self.assertEqual(await anext(watch), ValueSet(b"v", stored.version))
            await store.set("k", "w")
            self.assertIsInstance(await anext(first), ValueSet)
            self.assertEqual([event async for event in second], [])

    async def test_a_key_can_be_watched_again(self) -> None:
        async with self.store() as store:
            for value in ("a", "b", "c"):
                async with await store.watch("k") as watch:
                    await store.set("k", value)
                    event = await anext(watch)
                    assert isinstance(event, ValueSet)
                    self.assertEqual(event.value, value.encode())


class Leases(Case):
    async def test_one_is_had_renewed_and_given_back(self) -> None:
        async with self.store() as store:
            lease = await Lease.acquire(store, "l", "me", 60)
            assert lease is not None
            self.assertIsNone(await Lease.acquire(store, "l", "you", 60))
            token = lease.token
            self.assertTrue(await lease.renew())
            self.assertGreater(lease.token, token)
            self.assertGreater(lease.remaining, 50)
            await store.set("l", "you")  # taken by force
            self.assertFalse(await lease.renew())
            self.assertFalse(await lease.release())


class Locks(Case):
    async def test_a_released_lock_is_free_and_a_stolen_one_is_lost(self) -> None:
        async with self.store() as store:
            async with await Lock.acquire(store, "l", lease=0.6) as lock:
                self.assertTrue(lock.is_held)
            self.assertEqual(await lock.lost(), Lost.RELEASED)
            lock = await Lock.acquire(store, "l", lease=0.6, wait=5)
            await store.set("l", "thief")  # taken by force
            self.assertEqual(await lock.lost(), Lost.TAKEN_OVER)
            self.assertFalse(lock.is_held)
            await lock.release()
            found = await store.get("l")
            assert found is not None
            self.assertEqual(found.value, b"thief", "it is not ours to delete")

    async def test_others_wait_for_it_in_vain_or_get_it(self) -> None:
        async with self.store() as one, self.store() as other:
            lock = await Lock.acquire(one, "l", lease=10)
            old_token = lock.token
            for wait in (0, 0.1):
                with self.assertRaises(NotInTime):
                    await Lock.acquire(other, "l", lease=10, wait=wait)
            began = time.monotonic()
            _, second = await asyncio.gather(lock.release(), Lock.acquire(other, "l", lease=10))
            self.assertLess(time.monotonic() - began, 5, "it was told, and did not wait for the lease")
            self.assertGreater(second.token, old_token)
            await second.release()
            self.assertIsNone(await one.get("l"))

    async def test_one_that_is_held_is_renewed(self) -> None:
        async with self.store() as store, await store.watch("l") as watch:
            lock = await Lock.acquire(store, "l", lease=0.3)
            first = lock.token
            for _ in range(4):
                self.assertIsInstance(await anext(watch), ValueSet)
            self.assertTrue(lock.is_held)
            self.assertGreater(lock.token, first)
            await lock.release()

    async def test_one_whose_server_is_gone_is_lost_in_time(self) -> None:
        async with self.store() as store:
            lock = await Lock.acquire(store, "l", lease=0.5)
            self.server.kill()
            self.assertEqual(await asyncio.wait_for(lock.lost(), PATIENCE), Lost.EXPIRED)
            self.assertFalse(lock.is_held)

    async def test_one_attempt_at_a_server_that_is_gone_has_no_answer(self) -> None:
        async with self.store(timeout=0.3) as store:
            self.server.kill()
            with self.assertRaises(TimedOut):
                await Lock.acquire(store, "l", lease=10, wait=0)
            with self.assertRaises(NotInTime):
                await Lock.acquire(store, "l", lease=10, wait=0.5)

    async def test_one_is_kept_while_the_server_restarts(self) -> None:
        async with self.store() as store:
            lock = await Lock.acquire(store, "l", lease=20)
            self.server.kill()
            await self.again()
            with self.assertRaises(NotInTime):
                await Lock.acquire(store, "l", lease=20, wait=0)
            self.assertTrue(lock.is_held)
            await lock.release()

    async def test_one_that_is_given_up_while_waiting_is_nobodys(self) -> None:
        async with self.store() as store:
            lock = await Lock.acquire(store, "l", lease=10)
            waiting = asyncio.create_task(Lock.acquire(store, "l", lease=10))
            await store.get("l")
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            await lock.release()
            async with await Lock.acquire(store, "l", lease=10, wait=5):
                pass

    async def test_one_is_lost_when_its_client_disconnects(self) -> None:
        async with self.store() as store:
            lock = await Lock.acquire(store, "l", lease=0.5)
        self.assertEqual(await asyncio.wait_for(lock.lost(), PATIENCE), Lost.EXPIRED)


class Elections(Case):
    async def test_one_of_two_leads_and_the_other_follows(self) -> None:
        async with self.store() as one, self.store() as other:
            first, second = (LeaderElection(store, "leader", lease=10) for store in (one, other))
            self.assertIsNone(await first.leader())
            async with await second.watch() as leaders:
                self.assertIsNone(await anext(leaders))
                leadership = await first.campaign("one")
                self.assertEqual(await anext(leaders), b"one")
                old_token = leadership.token
                self.assertEqual(await second.leader(), b"one")
                with self.assertRaises(NotInTime):
                    await second.campaign("two", wait=0.1)
                _, next_one = await asyncio.gather(leadership.resign(), second.campaign("two"))
                self.assertTrue(next_one.is_held)
                self.assertGreater(next_one.token, old_token)
                self.assertIsNone(await anext(leaders))
                self.assertEqual(await anext(leaders), b"two")
                await next_one.resign()


class Examples(Case):
    async def test_they_run(self) -> None:
        for example in sorted((HERE.parent / "examples").glob("*.py")):
            with self.subTest(example.name):
                await runpy.run_path(str(example))["main"](self.address)

    async def test_that_of_the_page_runs(self) -> None:
        text = (HERE.parent / "README.md").read_text(encoding="utf-8")
        code = text.split("```python\n", 1)[1].split("```", 1)[0].replace("127.0.0.1:1883", self.address)
        example = await asyncio.create_subprocess_exec(sys.executable, "-W", "error", "-c", code)
        self.assertEqual(await example.wait(), 0)
