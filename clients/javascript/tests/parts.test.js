// What needs no server: bytes, timestamps, waits, options, and the life of a lock.
import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Backoff, BACKOFF_DEFAULT } from "../dist/backoff.js";
import { hex, text } from "../dist/bytes.js";
import { Contender } from "../dist/contender.js";
import { ErrorText, MalformedReply, OptionsError } from "../dist/errors.js";
import { Hlc, HlcClock } from "../dist/hlc.js";
import { checked } from "../dist/options.js";
import { change, deletion, entry, page, readReply, setOutcome } from "../dist/replies.js";
import { encode, Malformed, Reader } from "../dist/resp.js";
import { notificationPrefix } from "../dist/topics.js";

const VERSION = new Hlc(5, 1, "StateStore");
const utf8 = (string) => new TextEncoder().encode(string);
const message = (payload, userProperties = {}) => ({
  topic: "t",
  payload: typeof payload === "string" ? utf8(payload) : payload,
  userProperties,
});
const reply = (payload, version = VERSION) => ({ payload: utf8(payload), version });

describe("timestamps", () => {
  test("decimal of any width is read and written without padding", () => {
    assert.equal(`${Hlc.parse("001696374425000:00001:StateStore")}`, "1696374425000:1:StateStore");
  });

  test("what is none is refused", () => {
    for (const none of ["", "1:2", "1:2:", "1:2:x:y", "+1:1:x", "1:-1:x", "1.5:1:x", "٣:1:x", `${2 ** 53}:0:x`]) {
      assert.throws(() => Hlc.parse(none), RangeError, none);
    }
  });

  test("order is wall, then counter, then bytes of the node", () => {
    const ordered = ["0:0:x", "9:10:a", "10:9:b", "10:10:A", "10:10:a", "10:10:ab", "10:10:é", "10:10:\uffee", "10:10:😀", "11:0:a"];
    const sorted = [...ordered].reverse().map(Hlc.parse).sort((one, other) => one.compare(other));
    assert.deepEqual(sorted.map(String), ordered);
    assert.equal(VERSION.compare(new Hlc(5, 1, "StateStore")), 0);
  });

  test("a clock rises while the wall time stands or falls", () => {
    const clock = new HlcClock("c:d");
    const given = [1000, 1000, 999, 1001].map((wall) => `${clock.now(wall)}`);
    assert.deepEqual(given, ["1000:0:c-d", "1000:1:c-d", "1000:2:c-d", "1001:0:c-d"]);
  });

  test("a clock that ran far ahead starts over", () => {
    const clock = new HlcClock("c");
    clock.now(100_000);
    assert.equal(clock.now(40_000).wall, 100_000);
    assert.equal(clock.now(39_999).wall, 39_999);
  });
});

describe("bytes", () => {
  test("a request is an array of bulk strings", () => {
    assert.equal(text(encode(["GET", utf8("\r\né")])), "*2\r\n$3\r\nGET\r\n$4\r\n\r\né\r\n");
  });

  test("reading is strict", () => {
    for (const none of ["$3\r\nab\r\n", "$-1\r\n", "$3\r\nabcd\r\n", "3\r\nabc\r\n", "$9999999999\r\n", "$1_0\r\n", "$", "$1", "$\r\n", ""]) {
      assert.throws(() => new Reader(utf8(none)).bulk(), Malformed, JSON.stringify(none));
    }
    const reader = new Reader(utf8("$2\r\n\r\n\r\n$0\r\n\r\n"));
    assert.deepEqual([text(reader.bulk()), text(reader.bulk())], ["\r\n", ""]);
    reader.finish();
  });

  test("both dialects are understood", () => {
    for (const line of ["-1\r\n", ":-1\r\n"]) {
      assert.deepEqual(deletion(reply(line)), { outcome: "other-value", version: VERSION });
    }
    assert.deepEqual(deletion(reply(":1\r\n")), { outcome: "deleted", version: VERSION });
    for (const word of ["DEL", "DELETE"]) assert.equal(change(message(encode(["NOTIFY", word]))).type, "deleted");
  });

  test("what does not answer a command is malformed", () => {
    for (const read of [setOutcome, entry, deletion, page]) {
      for (const payload of ["", "+OK", "+OK\r\n", "$1\r\na", "*1\r\n*1\r\n"]) {
        assert.throws(() => read({ payload: utf8(payload), version: undefined }), MalformedReply, JSON.stringify(payload));
      }
    }
  });

  test("pages", () => {
    assert.deepEqual(page(reply("*1\r\n*0\r\n")), { keys: [], token: undefined });
    const { keys, token } = page(reply("*2\r\n*1\r\n$1\r\na\r\n$1\r\nt\r\n"));
    assert.deepEqual([...keys, token].map(text), ["a", "t"]);
  });

  test("refusals have names in both dialects", () => {
    for (const word of ["than", "that"]) {
      const line = `-ERR ${ErrorText.FENCING_TOKEN_LOWER.replace("than", word)}\r\n`;
      assert.throws(() => readReply(message(line)), { name: "RefusedByStore", reason: ErrorText.FENCING_TOKEN_LOWER });
    }
    const unknown = { text: "something of tomorrow", reason: undefined };
    assert.throws(() => readReply(message("-ERR something of tomorrow\r\n")), unknown);
  });

  test("a client's notifications are found by their topics", () => {
    assert(notificationPrefix("pump").endsWith("/70756D70/command/notify/"));
    assert.equal(hex(utf8("k\xff")), "6BC3BF");
  });
});

describe("waits", () => {
  test("they double up to the limit and stay in the upper half", () => {
    const backoff = new Backoff(BACKOFF_DEFAULT, Math.random);
    for (let [interval, count] = [100, 0]; count < 40; interval = Math.min(interval * 2, 30_000), count += 1) {
      const wait = backoff.nextWait(0);
      assert(interval / 2 <= wait && wait <= interval, `${wait} is not in the upper half of ${interval}`);
    }
  });

  test("only a connection that lasted starts over", () => {
    const backoff = new Backoff(BACKOFF_DEFAULT, () => 0.5);
    for (let count = 0; count < 5; count += 1) backoff.nextWait(0);
    backoff.connected(0);
    assert(backoff.nextWait(1000) > 1000);
    backoff.connected(0);
    assert(backoff.nextWait(10_000) <= 100);
  });
});

describe("options", () => {
  test("they are checked before anything is connected", () => {
    for (const address of ["localhost:1883", "[::1]:1883", "mqtts://a:1", "ws://a:1", "wss://a.b:443/mqtt"]) checked({ address });
    for (const address of ["localhost", "localhost:x", "http://localhost:1", "mqtt://a:1/path", ":1883", "a:99999", ""]) {
      assert.throws(() => checked({ address }), OptionsError, address);
    }
    const wrong = [
      { clientId: "a+" }, { clientId: "" }, { clientId: "a".repeat(32_001) }, { username: "a\0" }, { password: "a".repeat(65_536) },
      { keepAlive: 0 }, { timeoutMs: 0 }, { operationsMax: NaN },
    ];
    for (const options of wrong) {
      assert.throws(() => checked({ address: "a:1", ...options }), OptionsError, JSON.stringify(options).slice(0, 40));
    }
  });

  test("an address becomes a URL, and a random client id differs from client to client", () => {
    assert.equal(checked({ address: "[::1]:1883" }).url, "mqtt://[::1]:1883");
    assert.equal(checked({ address: "wss://a:443" }).url, "wss://a:443/mqtt");
    assert.notEqual(checked({ address: "a:1" }).clientId, checked({ address: "a:1" }).clientId);
  });
});

describe("a contender with a lease of 10 s", () => {
  const begin = () => {
    const contender = new Contender(10_000);
    const at = (now, event) => {
      const isAnswer = event instanceof Hlc || event === "refused" || event === "unknown";
      return contender.step(now, isAnswer ? { type: "answered", answer: event } : { type: event });
    };
    return [contender, at];
  };
  const set = (timeoutMs) => ({ type: "set", timeoutMs });
  const held = (until) => ({ type: "held", token: VERSION, until });

  test("a free lock is had with one request and renewed every third of its lease", () => {
    const [contender, at] = begin();
    assert.deepEqual(at(0, "start"), [set(10_000)]);
    assert.deepEqual(at(1000, VERSION), [held(9500)], "counted from before the request");
    assert.equal(contender.deadline(), 10_000 / 3);
    assert.deepEqual(at(3500, "timeout"), [set(6000)]);
    assert.deepEqual(at(4000, VERSION), [held(13_000)]);
  });

  test("a taken lock is watched before it is asked for again", () => {
    const [, at] = begin();
    at(0, "start");
    assert.deepEqual(at(100, "refused"), [{ type: "watch" }]);
    assert.deepEqual(at(200, "watching"), [set(10_000)], "it may have been freed before the watch");
    assert.deepEqual(at(300, "refused"), []);
    assert.deepEqual(at(5000, "freed"), [set(10_000)]);
    assert.deepEqual(at(5100, VERSION), [{ type: "unwatch" }, held(14_500)]);
  });

  test("a lock freed while the request is under way is asked for at once", () => {
    const [, at] = begin();
    for (const [now, event] of [[0, "start"], [100, "refused"], [200, "watching"]]) at(now, event);
    assert.deepEqual(at(300, "freed"), []);
    assert.deepEqual(at(400, "refused"), [set(10_000)]);
  });

  test("a lost notification costs one lease", () => {
    const [contender, at] = begin();
    for (const [now, event] of [[0, "start"], [100, "refused"], [200, "watching"], [1000, "refused"]]) at(now, event);
    assert.equal(contender.deadline(), 11_000);
    assert.deepEqual(at(11_000, "timeout"), [set(10_000)]);
  });

  test("a lease that cannot be renewed is lost before the store ends it", () => {
    const [contender, at] = begin();
    at(0, "start");
    at(100, VERSION);
    assert.deepEqual(at(4000, "timeout"), [set(5500)]);
    assert.deepEqual(at(6000, "unknown"), []);
    assert.equal(contender.deadline(), 7000, "another attempt");
    assert.deepEqual(at(7000, "timeout"), [set(2500)]);
    assert.deepEqual(at(9500, "timeout"), [{ type: "lost", how: "expired" }, { type: "delete" }]);
    assert.deepEqual(at(9600, VERSION), [], "an answer that came too late gives nothing back");
    assert.deepEqual(at(9700, "deleted"), [{ type: "end" }]);
  });

  test("a lock that another has is lost at once", () => {
    const [, at] = begin();
    at(0, "start");
    at(100, VERSION);
    at(4000, "timeout");
    assert.deepEqual(at(4100, "refused"), [{ type: "lost", how: "taken-over" }, { type: "end" }]);
  });

  test("an answer older than the lease does not count", () => {
    const [, at] = begin();
    at(0, "start");
    assert.deepEqual(at(9500, VERSION), [set(10_000)]);
    assert.deepEqual(at(9600, VERSION), [held(19_000)]);
  });

  test("release deletes whatever the state and ends once", () => {
    for (const events of [[], ["start"], ["start", VERSION]]) {
      const [, at] = begin();
      for (const event of events) at(100, event);
      const actions = [...at(200, "release"), ...at(300, "deleted")];
      const expected = events.length ? [{ type: "delete" }, { type: "end" }] : [{ type: "end" }];
      assert.deepEqual(actions, expected, `after ${events}`);
      assert.deepEqual(at(400, "release"), []);
    }
  });
});
