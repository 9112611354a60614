"""The state store built from the published text alone: no `__protVer`, so the text's own dialect."""

import unittest

from case import Case
from peer import user
from server import needs_statehold
from store import Store, clock, order, resp

AHEAD = "ensure that the client and broker system clocks are synchronized"
SKEWED_TS = f"-ERR the request timestamp is too far in the future; {AHEAD}\r\n".encode()
SKEWED_FT = f"-ERR the request fencing token timestamp is too far in the future; {AHEAD}\r\n".encode()
NEEDS_FT = b"-ERR a fencing token is required for this request\r\n"
# The published text says "that", and the clients know only "than".
LOWER_FT = {
    False: b"-ERR the request fencing token is a lower version that the fencing token protecting the resource\r\n",
    True: b"-ERR the request fencing token is a lower version than the fencing token protecting the resource\r\n",
}
NOT_MET = {False: b"-1\r\n", True: b":-1\r\n"}


@needs_statehold
class Samples(Case):
    """The payloads that the text prints, lower case as it prints them."""

    def test_set_get_del_vdel_byte_for_byte(self):
        store = Store(self)
        sample = {
            "set": b"*3\r\n$3\r\nset\r\n$7\r\nSETKEY2\r\n$6\r\nVALUE5\r\n",
            "get": b"*2\r\n$3\r\nget\r\n$7\r\nSETKEY2\r\n",
            "del": b"*2\r\n$3\r\ndel\r\n$7\r\nSETKEY2\r\n",
            "vdel": b"*3\r\n$4\r\nvdel\r\n$7\r\nSETKEY2\r\n$3\r\nABC\r\n",
        }
        self.assertEqual(store.ask(payload=sample["get"]), b"$-1\r\n")
        self.assertEqual(store.ask(payload=sample["set"], ts=clock()), b"+OK\r\n")
        self.assertEqual(store.ask(payload=sample["get"]), b"$6\r\nVALUE5\r\n")
        self.assertEqual(store.ask(payload=sample["vdel"]), b"-1\r\n")
        self.assertEqual(store.ask(payload=sample["del"]), b":1\r\n")
        self.assertEqual(store.ask(payload=sample["del"]), b":0\r\n")
        self.assertEqual(store.ask(payload=sample["vdel"]), b":0\r\n")

    def test_the_sample_answer_of_get(self):
        store, key = Store(self), self.name("key")
        store.ask("SET", key, "1234")
        self.assertEqual(store.ask("GET", key), b"$4\r\n1234\r\n")

    def test_verbs_and_options_of_any_case(self):
        store, key = Store(self), self.name("key")
        self.assertEqual(store.ask("sEt", key, "1", "nX", "pX", "60000"), b"+OK\r\n")
        self.assertEqual(store.ask("Get", key), b"$1\r\n1\r\n")
        self.assertEqual(store.ask("set", key, "1", "nex"), b"+OK\r\n")
        self.assertEqual(store.ask("KeyNotify", key), b"+OK\r\n")
        self.assertEqual(store.ask("keynotify", key, "stop"), b"+OK\r\n")
        self.assertEqual(store.ask("vDel", key, "1"), b":1\r\n")

    def test_an_empty_value(self):
        store, key = Store(self), self.name("key")
        self.assertEqual(store.ask("SET", key, ""), b"+OK\r\n")
        self.assertEqual(store.ask("GET", key), b"$0\r\n\r\n")


@needs_statehold
class Conditions(Case):
    def test_nx_in_both_dialects(self):
        for sdk in (False, True):
            store, key = Store(self, sdk=sdk), self.name("key")
            first = store.call("SET", key, "a", "NX")
            self.assertEqual(first.payload, b"+OK\r\n")
            refused = store.call("SET", key, "b", "NX")
            self.assertEqual((refused.payload, refused.version), (NOT_MET[sdk], first.version))
            self.assertEqual(store.ask("GET", key), b"$1\r\na\r\n")

    def test_nex_alone_compares_with_the_value_being_set(self):
        store, key = Store(self), self.name("key")
        self.assertEqual(store.ask("SET", key, "a", "NEX"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "a", "NEX", "PX", "60000"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "b", "NEX"), b"-1\r\n")
        self.assertEqual(store.ask("SET", key, "b", "PX", "60000", "NEX"), b"-1\r\n")
        self.assertEqual(store.ask("GET", key), b"$1\r\na\r\n")

    def test_nex_with_a_value_is_compare_and_set(self):
        store, key = Store(self), self.name("key")
        self.assertEqual(store.ask("SET", key, "a", "NEX", "x"), b"+OK\r\n", "there was none")
        self.assertEqual(store.ask("SET", key, "b", "NEX", "x"), b"-1\r\n")
        self.assertEqual(store.ask("SET", key, "b", "NEX", "a"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "c", "NEX", "b", "PX", "60000"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "d", "PX", "60000", "NEX", "c"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "e", "NEX", "PX"), b"-1\r\n", "PX alone is a value to compare with")
        self.assertEqual(store.ask("GET", key), b"$1\r\nd\r\n")

    def test_px_expires_and_a_set_without_px_does_not(self):
        store, gone, kept = Store(self), self.name("gone"), self.name("kept")
        store.ask("KEYNOTIFY", gone)
        self.assertEqual(store.ask("SET", kept, "1", "PX", "100"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", kept, "2"), b"+OK\r\n")
        self.assertEqual(store.ask("SET", gone, "1", "PX", "200.5"), b"+OK\r\n", "a fraction is rounded up")
        self.assertIn(b"SET", store.notification().payload)
        self.assertIn(b"DEL", store.notification().payload)
        expired = store.call("GET", gone)
        self.assertEqual((expired.payload, expired.version), (b"$-1\r\n", None))
        self.assertEqual(store.ask("GET", kept), b"$1\r\n2\r\n")


@needs_statehold
class Versions(Case):
    def test_the_text_form_and_that_get_tells_what_set_told(self):
        store, key = Store(self), self.name("key")
        sent = clock()
        told = store.call("SET", key, "1", ts=sent).version
        self.assertRegex(told, r"^[1-9][0-9]{12}:(0|[1-9][0-9]*):StateStore$")
        self.assertGreater(order(told), order(sent))
        self.assertEqual(store.call("GET", key).version, told)
        self.assertEqual(store.call("GET", key, ts=clock()).version, told, "a timestamp on GET changes nothing")
        self.assertEqual(store.call("DEL", key).version, told)
        self.assertIsNone(store.call("DEL", key).version)
        self.assertIsNone(store.call("GET", key).version)

    def test_a_clock_ahead_by_less_than_a_minute_gives_its_wall_and_the_next_counter(self):
        store, key, other = Store(self), self.name("key"), self.name("key")
        sent = clock(ahead_ms=30_000, counter=7)
        told = store.call("SET", key, "1", ts=sent).version
        wall = sent.split(":")[0]
        self.assertEqual(told, f"{wall}:8:StateStore")
        again = store.call("SET", key, "2").version
        self.assertEqual(again, f"{wall}:9:StateStore", "never back, although this clock was behind")
        self.assertLess(order(store.call("SET", other, "1").version), order(told), "other keys keep their clock")
        store.call("DEL", key)
        self.assertGreater(order(store.call("SET", key, "3").version), order(again), "also across a deletion")

    def test_padded_timestamps_are_read(self):
        store, key = Store(self), self.name("key")
        wall, _, _ = clock(ahead_ms=20_000).split(":")
        told = store.call("SET", key, "1", ts=f"{int(wall):015}:{3:05}:a-b").version
        self.assertEqual(told, f"{wall}:4:StateStore")

    def test_versions_grow(self):
        store, key, last = Store(self), self.name("key"), (0, 0, b"")
        for number in range(100):
            version = order(store.call("SET", key, str(number)).version)
            self.assertGreater(version, last)
            last = version


@needs_statehold
class Errors(Case):
    def test_payload_verb_and_arity(self):
        syntax, arity = b"-ERR syntax error\r\n", b"-ERR wrong number of arguments\r\n"
        unknown, zero = b"-ERR unknown command\r\n", b"-ERR the key length is zero\r\n"
        cases = [
            (b"", syntax), (b"hello", syntax), (b"PING\r\n", syntax), (b"*0\r\n", syntax), (b"*", syntax),
            (b"*1\r\n", syntax), (b"*2\r\n$3\r\nGET\r\n", syntax), (b"*2\r\n$3\r\nGET\r\n$3\r\nabc", syntax),
            (b"*2\r\n$3\r\nGET\r\n$4\r\nabc\r\n", syntax), (b"*2\r\n$3\r\nGET\r\n$2\r\nabc\r\n", syntax),
            (b"*2\n$3\nGET\n$3\nabc\n", syntax), (b"*2\r\n$3\r\nGET\r\n$3\r\nabc\r\nx", syntax),
            (b"*2\r\n$3\r\nGET\r\n*1\r\n$3\r\nabc\r\n", syntax), (b"*-1\r\n", syntax), (b"*2\r\n$-1\r\n$1\r\na\r\n", syntax),
            (b"*99999999999999999999\r\n$3\r\nGET\r\n", syntax), (b"*2\r\n$99999999999999999999\r\nGET\r\n", syntax),
            (b"*2147483647\r\n$3\r\nGET\r\n", syntax), (b"*2\r\n$3\r\nGET\r\n$2147483647\r\na\r\n", syntax),
            (b"*2\r\n+GET\r\n+a\r\n", syntax), (b"*2\r\n:1\r\n:2\r\n", syntax),
            (resp("PUT", "k", "v"), unknown), (resp("GETT", "k"), unknown), (resp("", "k"), unknown),
            (resp("GET"), arity), (resp("GET", "k", "v"), arity), (resp("DEL"), arity), (resp("DEL", "k", "v"), arity),
            (resp("VDEL", "k"), arity), (resp("VDEL", "k", "v", "w"), arity), (resp("SET", "k"), arity),
            (resp("KEYNOTIFY"), arity), (resp("SCAN"), arity), (resp("SCAN", "*", "t", "u"), arity),
            (resp("GET", ""), zero), (resp("DEL", ""), zero), (resp("VDEL", "", ""), zero), (resp("KEYNOTIFY", ""), zero),
            (resp("SET", "", "v"), zero),
        ]
        for sdk in (False, True):
            store = Store(self, sdk=sdk)
            for payload, expected in cases:
                with self.subTest(payload=payload, sdk=sdk):
                    reply = store.call(payload=payload, ts=clock())
                    self.assertEqual((reply.payload, reply.version), (expected, None))

    def test_options(self):
        store = Store(self)
        for options in (("NX", "NX"), ("NX", "NEX"), ("PX",), ("PX", "0"), ("PX", "-5"), ("PX", "abc"), ("PX", ""),
                        ("PX", "99999999999999999999"), ("PX", "9007199254740993"), ("PX", "5", "PX", "5"), ("XX",)):
            with self.subTest(options=options):
                self.assertEqual(store.ask("SET", "options", "v", *options), b"-ERR syntax error\r\n")
        self.assertEqual(store.ask("GET", "options"), b"$-1\r\n")

    def test_timestamps(self):
        store, key = Store(self), self.name("key")
        missing, malformed = b"-ERR missing timestamp\r\n", b"-ERR malformed timestamp\r\n"
        self.assertEqual(store.ask("SET", key, "v", ts=None), missing)
        for bad in ("", "1", "1:2", "1:2:", ":2:a", "1::a", "x:2:a", "1:x:a", "-1:2:a", "1:2:a:b", " 1:2:a",
                    "99999999999999999999999:1:a"):
            with self.subTest(timestamp=bad):
                self.assertEqual(store.ask("SET", key, "v", ts=bad), malformed)
                self.assertEqual(store.ask("GET", key, ts=bad), malformed)
                self.assertEqual(store.ask("SET", key, "v", ft=bad), malformed)
        self.assertEqual(store.ask("SET", key, "v", ts=clock(ahead_ms=70_000)), SKEWED_TS)
        self.assertEqual(store.ask("SET", key, "v", ft=clock(ahead_ms=70_000)), SKEWED_FT)
        self.assertEqual(store.ask("GET", key), b"$-1\r\n", "nothing of this was stored")
        self.assertEqual(store.ask("SET", key, "v", ts=clock(ahead_ms=50_000)), b"+OK\r\n")
        self.assertEqual(store.ask("SET", key, "v", ts="0:0:x"), b"+OK\r\n", "a clock behind is no error")

    def test_the_order_of_checks(self):
        store = Store(self)
        late = clock(ahead_ms=70_000)
        self.assertEqual(store.ask(payload=b"*1\r\n", ts="bad"), b"-ERR syntax error\r\n")
        self.assertEqual(store.ask("NOPE", ts="bad"), b"-ERR unknown command\r\n")
        self.assertEqual(store.ask("SET", "", ts="bad"), b"-ERR wrong number of arguments\r\n")
        self.assertEqual(store.ask("SET", "", "v", "PX", "0", ts="bad"), b"-ERR the key length is zero\r\n")
        self.assertEqual(store.ask("SET", "k", "v", "PX", "0", ts="bad"), b"-ERR syntax error\r\n")
        self.assertEqual(store.ask("SET", "k", "v", ts="bad", ft="bad"), b"-ERR malformed timestamp\r\n")
        self.assertEqual(store.ask("SET", "k", "v", ts=late, ft=late), SKEWED_TS)

    def test_another_major_version_of_the_protocol(self):
        store = Store(self)
        correlation, (code, _) = store.send(resp("GET", "k"), user_properties=[("__protVer", "2.0")])
        self.assertEqual(code, 0)
        reply = store.reply(correlation).message
        self.assertEqual(user(reply, "__stat"), ["505"])
        self.assertEqual(user(reply, "__supProtMajVer"), ["1"])
        self.assertEqual(user(reply, "__requestProtVer"), ["2.0"])

    def test_unknown_and_official_user_properties_are_accepted(self):
        store, key = Store(self), self.name("key")
        extra = [("$partition", "x"), ("$high_priority", "true"), ("__srcId", "x"), ("__invId", "y"),
                 ("aio-persistence", "true"), ("mine", "1"), ("mine", "2")]
        self.assertEqual(store.ask("SET", key, "v", user_properties=extra), b"+OK\r\n")


@needs_statehold
class Fencing(Case):
    def test_the_algorithm_of_the_text_in_both_dialects(self):
        for sdk in (False, True):
            store, key, lock = Store(self, sdk=sdk), self.name("key"), self.name("lock")
            old = store.call("SET", lock, "1").version
            token = store.call("SET", lock, "1").version
            newer = store.call("SET", lock, "1").version
            self.assertEqual(store.ask("SET", key, "0"), b"+OK\r\n")
            self.assertEqual(store.ask("SET", key, "1", ft=token), b"+OK\r\n")
            self.assertEqual(store.ask("SET", key, "2"), NEEDS_FT)
            self.assertEqual(store.ask("SET", key, "2", ft=old), LOWER_FT[sdk])
            self.assertEqual(store.ask("SET", key, "2", ft="0:0:x"), LOWER_FT[sdk])
            self.assertEqual(store.ask("SET", key, "2", ft=token), b"+OK\r\n")
            self.assertEqual(store.ask("SET", key, "3", ft=newer), b"+OK\r\n")
            self.assertEqual(store.ask("SET", key, "4", ft=token), LOWER_FT[sdk], "the newer one is kept")
            self.assertEqual(store.ask("GET", key), b"$1\r\n3\r\n")
            for verb in (("DEL", key), ("VDEL", key, "3")):
                self.assertEqual(store.ask(*verb), NEEDS_FT)
                self.assertEqual(store.ask(*verb, ft=token), LOWER_FT[sdk])
            self.assertEqual(store.ask("VDEL", key, "x", ft=newer), NOT_MET[sdk])
            self.assertEqual(store.ask("DEL", key, ft=newer), b":1\r\n")
            self.assertEqual(store.ask("SET", key, "5"), b"+OK\r\n", "a key that is gone has no token")

    def test_fencing_is_checked_before_the_condition(self):
        store, key = Store(self), self.name("key")
        store.ask("SET", key, "1", ft=clock())
        self.assertEqual(store.ask("SET", key, "2", "NX"), NEEDS_FT)

    def test_a_lock_key_is_not_fenced_by_being_a_lock(self):
        store, lock = Store(self), self.name("lock")
        for _ in range(3):
            self.assertEqual(store.ask("SET", lock, "me", "NEX", "PX", "60000"), b"+OK\r\n")


@needs_statehold
class Scan(Case):
    def test_byte_for_byte(self):
        store = Store(self)
        self.assertEqual(store.ask("SCAN", "scan-one*"), b"*1\r\n*0\r\n")
        store.ask("SET", "scan-one", "v")
        self.assertEqual(store.ask("SCAN", "scan-one*"), b"*1\r\n*1\r\n$8\r\nscan-one\r\n")
        self.assertEqual(store.ask("scan", "scan-[no]ne"), b"*1\r\n*1\r\n$8\r\nscan-one\r\n")
        self.assertEqual(store.ask("SCAN", "scan-?ne"), b"*1\r\n*1\r\n$8\r\nscan-one\r\n")
        self.assertEqual(store.ask("SCAN", "scan-["), b"-ERR syntax error\r\n")
        self.assertEqual(store.ask("SCAN", b"scan-\xff*"), b"*1\r\n*0\r\n")

    def test_the_whole_store_in_pages(self):
        store = Store(self)
        keys = {f"page/{number:04}".encode() for number in range(1500)}
        waiting = [store.send(resp("SET", key, "v"), ts=clock(), wait=False)[0] for key in sorted(keys)]
        for correlation in waiting:
            self.assertEqual(store.reply(correlation).payload, b"+OK\r\n")
        found, token, pages = [], None, 0
        while pages == 0 or token is not None:
            words = ("SCAN", "page/*") + ((token,) if token is not None else ())
            page, token = self.parse(store.ask(*words))
            found += page
            pages += 1
            self.assertLessEqual(pages, 64)
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(set(found), keys)

    def parse(self, payload):
        def line():
            nonlocal payload
            text, _, payload = payload.partition(b"\r\n")
            return text

        def bulk():
            nonlocal payload
            length = int(line().removeprefix(b"$"))
            text, payload = payload[:length], payload[length + 2:]
            return text

        parts = line()
        keys = [bulk() for _ in range(int(line().removeprefix(b"*")))]
        token = bulk() if parts == b"*2" else None
        self.assertEqual(payload, b"")
        return keys, token


@needs_statehold
class Durability(Case):
    def test_what_was_answered_survives_a_kill(self):
        store = Store(self)
        versions = {f"key {number}": store.call("SET", f"key {number}", str(number)).version for number in range(50)}
        store.call("SET", "fenced", "v", ft=clock())
        store.call("DEL", "key 7")
        self.server.kill()
        store.peer.ended()
        self.server.start()
        again = Store(self)
        for number, (key, version) in enumerate(versions.items()):
            reply = again.call("GET", key)
            if number == 7:
                self.assertEqual((reply.payload, reply.version), (b"$-1\r\n", None))
            else:
                value = str(number).encode()
                self.assertEqual((reply.payload, reply.version), (b"$%d\r\n%s\r\n" % (len(value), value), version))
        self.assertEqual(again.ask("SET", "fenced", "w"), NEEDS_FT)
        self.assertGreater(order(again.call("SET", "key 7", "new").version), order(versions["key 7"]))


if __name__ == "__main__":
    unittest.main()
