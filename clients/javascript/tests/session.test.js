// What a session says on a connection, and says again on the next one. The connection is the test's.
import assert from "node:assert/strict";
import { test } from "node:test";

import { text } from "../dist/bytes.js";
import { Loss, LossKind, MalformedReply, Refused, WrongStatus } from "../dist/errors.js";
import { Hlc } from "../dist/hlc.js";
import { checked } from "../dist/options.js";
import { Session } from "../dist/session.js";
import { notificationPrefix, responseTopic } from "../dist/topics.js";

const ANSWERS = responseTopic("pump");
const NOTIFICATIONS = notificationPrefix("pump");
const OK = "+OK\r\n";
const utf8 = (string) => new TextEncoder().encode(string);

/** Is open at once, and keeps what is sent. */
class FakeConnection {
  filters = [];
  sent = [];

  constructor(listener) {
    this.listener = listener;
    queueMicrotask(() => listener.opened(1000));
  }

  publish(number, request) {
    this.sent.push({ number, ...request });
  }

  subscribe(filter) {
    this.filters.push(filter);
  }

  close() {}

  answer({ correlationData }, payload, userProperties = {}) {
    this.listener.received({ topic: ANSWERS, payload: utf8(payload), userProperties, correlationData });
  }
}

/** Until nothing is left to do but wait. */
const turns = () => new Promise((resolve) => setImmediate(resolve));

async function begin() {
  const connections = [];
  const open = (_options, listener) => {
    connections.push(new FakeConnection(listener));
    return connections.at(-1);
  };
  const backoff = { waitMinMs: 0, waitMaxMs: 0, stableAfterMs: 0 };
  const session = new Session(checked({ address: "a:1", clientId: "pump", backoff, reconnect: "always" }), open);
  await session.start();
  return {
    session,
    current: () => connections.at(-1),
    ask() {
      const asked = session.request(["GET", "k"], { timeoutMs: 4500 });
      return [asked, connections.at(-1).sent.at(-1)];
    },
    async reconnect() {
      const isBack = new Promise((resolve) => {
        const listener = (state) => state.type === "connected" && session.stateListeners.delete(listener) && resolve();
        session.stateListeners.add(listener);
      });
      connections.at(-1).listener.lost(new Loss(LossKind.TRANSPORT));
      await isBack;
      return connections.at(-1);
    },
  };
}

test("a request is what the protocol says", async () => {
  const { session, current, ask } = await begin();
  const [asked, request] = ask();
  assert.deepEqual(current().filters, [ANSWERS]);
  assert.equal(text(request.payload), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
  assert.deepEqual([request.responseTopic, request.expiry], [ANSWERS, 5]);
  assert.equal(request.userProperties.__protVer, "1.0");
  assert.equal(Hlc.parse(request.userProperties.__ts).node, "pump");
  assert.equal(request.userProperties.__ft, undefined);
  session.end();
  await assert.rejects(asked, { name: "Ended" });
});

test("replies find their requests in any order and only once", async () => {
  const { session, current, ask } = await begin();
  const [[first, one], [second, other]] = [ask(), ask()];
  for (const [request, payload] of [[other, "b"], [one, "a"], [one, "c"]]) {
    current().answer(request, payload, { __stat: "200" });
  }
  assert.deepEqual([text((await first).payload), text((await second).payload)], ["a", "b"]);
  session.end();
});

test("a request is sent again with the same correlation data", async () => {
  const { session, ask, reconnect } = await begin();
  const [asked, request] = ask();
  const connection = await reconnect();
  assert.deepEqual(connection.filters, [ANSWERS]);
  assert.deepEqual(connection.sent, [request]);
  connection.answer(request, "a");
  await asked;
  session.end();
});

test("a key is registered again with other correlation data, and the gap is reported", async () => {
  const { session, current, reconnect } = await begin();
  const watching = session.watched.watch(utf8("k"), 4000);
  const [registration] = current().sent;
  let connection = await reconnect();
  assert.deepEqual(connection.filters, [ANSWERS, `${NOTIFICATIONS}+`]);
  const [again] = connection.sent;
  assert.equal(text(again.payload), text(registration.payload));
  assert.notDeepEqual(again.correlationData, registration.correlationData);
  let isWatching = false;
  watching.then(() => (isWatching = true));
  connection.answer(registration, OK);
  await turns();
  assert(!isWatching, "the old connection's registration");
  connection.answer(again, OK);
  const watch = await watching;

  connection = await reconnect();
  connection.answer(connection.sent[0], OK);
  assert.deepEqual((await watch.next()).value, { type: "gap" }, "the first gap: it was watched from the beginning");
  watch.close();
  assert.equal(text(connection.sent.at(-1).payload), "*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n");
  session.end();
});

test("changes are reported once, in the order of their versions", async () => {
  const { session, current } = await begin();
  const watching = session.watched.watch(utf8("k"), 4000);
  current().answer(current().sent[0], OK);
  const watch = await watching;
  const notify = (payload, userProperties) =>
    current().listener.received({ topic: `${NOTIFICATIONS}6B`, payload: utf8(payload), userProperties });
  for (const [value, version] of [["1", "5:1:s"], ["1", "5:1:s"], ["0", "4:9:s"], ["2", "5:2:s"]]) {
    notify(`*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$1\r\n${value}\r\n`, { __ts: version });
  }
  notify("*1\r\n$4\r\nWHAT\r\n", {});
  watch.close();
  const values = [];
  for await (const event of watch) values.push(text(event.value));
  assert.deepEqual(values, ["1", "2"]);
  session.end();
});

test("errors of all kinds reach the caller", async () => {
  const { session, current, ask } = await begin();
  let [asked, request] = ask();
  current().listener.refused(request.number, 0x83, "no topic");
  await assert.rejects(asked, (error) => error instanceof Refused && error.reason === 0x83);
  [asked, request] = ask();
  current().answer(request, OK, { __stat: "505" });
  await assert.rejects(asked, WrongStatus);
  [asked, request] = ask();
  current().answer(request, OK, { __ts: "yesterday" });
  await assert.rejects(asked, MalformedReply);
  [asked] = ask();
  current().listener.notSubscribed(ANSWERS, 0x87);
  await assert.rejects(asked, Refused);
  session.end();
});
