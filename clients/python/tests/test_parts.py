"""What needs no server: bytes, timestamps, waits, options, and the life of a lock."""

import unittest

from statehold import (
    BackoffLimits,
    Deleted,
    ErrorText,
    Hlc,
    Lost,
    MalformedReply,
    Options,
    OptionsError,
    OtherValue,
)
from statehold.backoff import Backoff
from statehold.connection import Message
from statehold.contender import Action, Answer, Answered, Contender, Event, Held, Set
from statehold.errors import RefusedByStore
from statehold.hlc import HlcClock
from statehold.options import Address
from statehold.replies import Reply, change, deletion, entry, page, read_reply, set_outcome
from statehold.resp import Malformed, Reader, encode
from statehold.topics import notification_filter, notified_key

VERSION = Hlc(5, 1, "StateStore")


class Timestamps(unittest.TestCase):
    def test_decimal_of_any_width_is_read_and_written_without_padding(self) -> None:
        self.assertEqual(str(Hlc.parse("001696374425000:00001:StateStore")), "1696374425000:1:StateStore")

    def test_what_is_none_is_refused(self) -> None:
        for text in ("", "1:2", "1:2:", "1:2:x:y", "+1:1:x", "1:-1:x", "1.5:1:x", "٣:1:x", f"{1 << 64}:0:x"):
            with self.assertRaises(ValueError, msg=text):
                Hlc.parse(text)

    def test_order_is_wall_then_counter_then_bytes_of_the_node(self) -> None:
        texts = ["0:0:x", "9:10:a", "10:9:b", "10:10:A", "10:10:a", "10:10:ab", "10:10:é", "11:0:a"]
        ordered = [Hlc.parse(text) for text in texts]
        shuffled = [ordered[index] for index in (7, 2, 5, 0, 6, 3, 1, 4)]
        self.assertEqual(sorted(shuffled), ordered)

    def test_a_clock_rises_while_the_wall_time_stands_or_falls(self) -> None:
        clock = HlcClock("c:d")
        given = [str(clock.now(wall)) for wall in (1_000, 1_000, 999, 1_001)]
        self.assertEqual(given, ["1000:0:c-d", "1000:1:c-d", "1000:2:c-d", "1001:0:c-d"])

    def test_a_clock_that_ran_far_ahead_starts_over(self) -> None:
        clock = HlcClock("c")
        clock.now(100_000)
        self.assertEqual(clock.now(40_000).wall, 100_000)
        self.assertEqual(clock.now(39_999).wall, 39_999)


class Bytes(unittest.TestCase):
    def test_a_request_is_an_array_of_bulk_strings(self) -> None:
        self.assertEqual(encode([b"GET", b"\r\n"]), b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n")

    def test_reading_is_strict(self) -> None:
        for payload in (
            b"$3\r\nab\r\n",
            b"$-1\r\n",
            b"$3\r\nabcd\r\n",
            b"3\r\nabc\r\n",
            b"$9999999999\r\n",
            b"$1_0\r\n",
            b"",
        ):
            with self.assertRaises(Malformed, msg=payload):
                Reader(payload).bulk()

    def test_both_dialects_are_understood(self) -> None:
        self.assertEqual(deletion(Reply(b"-1\r\n", VERSION)), OtherValue(VERSION))
        self.assertEqual(deletion(Reply(b":-1\r\n", VERSION)), OtherValue(VERSION))
        self.assertEqual(deletion(Reply(b":1\r\n", VERSION)), Deleted(VERSION))
        for word in (b"DEL", b"DELETE"):
            self.assertEqual(type(change(Message("t", encode([b"NOTIFY", word])))).__name__, "ValueDeleted")

    def test_what_does_not_answer_a_command_is_malformed(self) -> None:
        for read in (set_outcome, entry, deletion, page):
            for payload in (b"", b"+OK", b"+OK\r\n", b"$1\r\na", b"*1\r\n*1\r\n"):
                with self.assertRaises(MalformedReply, msg=(read, payload)):
                    read(Reply(payload, None))

    def test_pages(self) -> None:
        self.assertEqual(page(Reply(b"*1\r\n*0\r\n", None)), ([], None))
        self.assertEqual(page(Reply(b"*2\r\n*1\r\n$1\r\na\r\n$1\r\nt\r\n", None)), ([b"a"], b"t"))

    def test_refusals_have_names_in_both_dialects(self) -> None:
        for text in ("than", "that"):
            line = ErrorText.FENCING_TOKEN_LOWER.value.replace("than", text)
            with self.assertRaises(RefusedByStore) as raised:
                read_reply(Message("t", b"-ERR " + line.encode() + b"\r\n"))
            self.assertIs(raised.exception.reason, ErrorText.FENCING_TOKEN_LOWER)
        with self.assertRaises(RefusedByStore) as raised:
            read_reply(Message("t", b"-ERR something of tomorrow\r\n"))
        self.assertEqual((raised.exception.reason, raised.exception.text), (None, "something of tomorrow"))

    def test_a_notification_is_found_by_its_topic(self) -> None:
        prefix = notification_filter("pump").removesuffix("+")
        self.assertEqual(notified_key(prefix + "6B", "pump"), b"k")
        for topic in (prefix + "6", prefix + "6B/1", prefix.replace("notify", "other") + "6B"):
            self.assertIsNone(notified_key(topic, "pump"), topic)


class Waits(unittest.TestCase):
    def test_they_double_up_to_the_limit_and_stay_in_the_upper_half(self) -> None:
        backoff, interval = Backoff(BackoffLimits(), 1), 0.1
        for _ in range(40):
            wait = backoff.next_wait(0)
            self.assertTrue(interval / 2 <= wait <= interval, wait)
            interval = min(interval * 2, 30)

    def test_only_a_connection_that_lasted_starts_over(self) -> None:
        backoff = Backoff(BackoffLimits(), 2)
        for _ in range(5):
            backoff.next_wait(0)
        backoff.connected(0)
        self.assertGreater(backoff.next_wait(1), 1)
        backoff.connected(0)
        self.assertLessEqual(backoff.next_wait(10), 0.1)


class WhatCanBeSet(unittest.TestCase):
    def test_options_are_checked_before_anything_is_connected(self) -> None:
        for address in ("localhost:1883", "[::1]:1883", "unix:/run/statehold.sock", "wss://a:443/mqtt"):
            Options(address)
        for address in ("localhost", "unix:", "localhost:x", "http://localhost:1", ":1883", ""):
            with self.assertRaises(OptionsError, msg=address):
                Options(address)
        wrong: list[dict[str, object]] = [
            {"client_id": "a+"}, {"client_id": ""}, {"client_id": "a" * 32_001}, {"username": "a\0"},
            {"password": "a" * 65_536}, {"keep_alive": 0}, {"timeout": 0}, {"operations_max": 0},
        ]  # fmt: skip
        for options in wrong:
            with self.assertRaises(OptionsError, msg=options):
                Options("localhost:1883", **options)  # type: ignore[arg-type]

    def test_a_password_is_not_shown(self) -> None:
        self.assertNotIn("secret", repr(Options("localhost:1883", username="me", password="secret")))

    def test_an_address_is_taken_apart(self) -> None:
        self.assertEqual(Address.parse("[::1]:1883"), Address("tcp", "::1", 1883))
        self.assertEqual(Address.parse("wss://a:443"), Address("websockets", "a", 443, "/mqtt", needs_tls=True))


class Locks(unittest.TestCase):
    """A contender with a lease of 10 s, on virtual time."""

    def setUp(self) -> None:
        self.contender = Contender(10)

    def at(self, now: float, event: Event | Answered | Answer | Hlc) -> list[Set | Held | Lost | Action]:
        return self.contender.step(now, Answered(event) if isinstance(event, Answer | Hlc) else event)

    def test_a_free_lock_is_had_with_one_request_and_renewed_every_third_of_its_lease(self) -> None:
        self.assertEqual(self.at(0, Event.START), [Set(10)])
        self.assertEqual(self.at(1, VERSION), [Held(VERSION, 9.5)], "counted from before the request")
        self.assertAlmostEqual(self.contender.deadline() or 0, 10 / 3)
        self.assertEqual(self.at(3.5, Event.TIMEOUT), [Set(6)])
        self.assertEqual(self.at(4, VERSION), [Held(VERSION, 13)])

    def test_a_taken_lock_is_watched_before_it_is_asked_for_again(self) -> None:
        self.at(0, Event.START)
        self.assertEqual(self.at(0.1, Answer.REFUSED), [Action.WATCH])
        self.assertEqual(self.at(0.2, Event.WATCHING), [Set(10)], "it may have been freed before the watch")
        self.assertEqual(self.at(0.3, Answer.REFUSED), [])
        self.assertEqual(self.at(5, Event.FREED), [Set(10)])
        self.assertEqual(self.at(5.1, VERSION), [Action.UNWATCH, Held(VERSION, 14.5)])

    def test_a_lock_freed_while_the_request_is_under_way_is_asked_for_at_once(self) -> None:
        for now, event in ((0.0, Event.START), (0.1, Answer.REFUSED), (0.2, Event.WATCHING), (0.3, Event.FREED)):
            actions = self.at(now, event)
        self.assertEqual(actions, [])
        self.assertEqual(self.at(0.4, Answer.REFUSED), [Set(10)])

    def test_a_lost_notification_costs_one_lease(self) -> None:
        for now, event in ((0.0, Event.START), (0.1, Answer.REFUSED), (0.2, Event.WATCHING), (1.0, Answer.REFUSED)):
            self.at(now, event)
        self.assertEqual(self.contender.deadline(), 11)
        self.assertEqual(self.at(11, Event.TIMEOUT), [Set(10)])

    def test_a_lease_that_cannot_be_renewed_is_lost_before_the_store_ends_it(self) -> None:
        self.at(0, Event.START)
        self.at(0.1, VERSION)
        self.assertEqual(self.at(4, Event.TIMEOUT), [Set(5.5)])
        self.assertEqual(self.at(6, Answer.UNKNOWN), [])
        self.assertEqual(self.contender.deadline(), 7, "another attempt")
        self.assertEqual(self.at(7, Event.TIMEOUT), [Set(2.5)])
        self.assertEqual(self.at(9.5, Event.TIMEOUT), [Lost.EXPIRED, Action.DELETE])
        self.assertEqual(self.at(9.6, VERSION), [], "an answer that came too late gives nothing back")
        self.assertEqual(self.at(9.7, Event.DELETED), [Action.END])

    def test_a_lock_that_another_has_is_lost_at_once(self) -> None:
        self.at(0, Event.START)
        self.at(0.1, VERSION)
        self.at(4, Event.TIMEOUT)
        self.assertEqual(self.at(4.1, Answer.REFUSED), [Lost.TAKEN_OVER, Action.END])

    def test_an_answer_older_than_the_lease_does_not_count(self) -> None:
        self.at(0, Event.START)
        self.assertEqual(self.at(9.5, VERSION), [Set(10)])
        self.assertEqual(self.at(9.6, VERSION), [Held(VERSION, 19)])

    def test_release_deletes_whatever_the_state_and_ends_once(self) -> None:
        stories: list[list[Event | Hlc]] = [[], [Event.START], [Event.START, VERSION]]
        for events in stories:
            self.contender = Contender(10)
            for event in events:
                self.at(0.1, event)
            actions = self.at(0.2, Event.RELEASE) + self.at(0.3, Event.DELETED)
            self.assertEqual(actions, [Action.DELETE, Action.END] if events else [Action.END], events)
            self.assertEqual(self.at(0.4, Event.RELEASE), [])
