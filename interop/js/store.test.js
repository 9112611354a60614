// The state store with MQTT.js, from its published text alone, and once more as the official clients ask.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Peer, name } from "./peer.js";
import { Server, foreign } from "./server.js";

const INVOKE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
const NOTIFY = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";

const server = new Server();
before(() => server.start());
after(() => server.stop());

const needs = { skip: Boolean(foreign) };
const hex = (bytes) => Buffer.from(bytes).toString("hex").toUpperCase();
const resp = (...words) =>
  Buffer.concat([
    Buffer.from(`*${words.length}\r\n`),
    ...words.map((word) => Buffer.from(`$${Buffer.byteLength(word)}\r\n${word}\r\n`)),
  ]);

class Store {
  #requests = 0;

  static async connect({ sdk = false } = {}) {
    const store = new Store();
    store.sdk = sdk;
    store.peer = await Peer.connect(server);
    store.answers = `clients/${store.peer.id}/services/statestore/_any_/command/invoke/response`;
    await store.peer.subscribe(store.answers);
    return store;
  }

  async call(words, { token, at = `${Date.now()}:0:JS` } = {}) {
    const correlationData = Buffer.from(`request ${(this.#requests += 1)}`);
    const userProperties = {};
    if (words[0].toUpperCase() === "SET") userProperties.__ts = at;
    if (token) userProperties.__ft = token;
    if (this.sdk) userProperties.__protVer = "1.0";
    const properties = { responseTopic: this.answers, correlationData };
    // MQTT.js writes no packet at all if there are user properties but none in them.
    if (Object.keys(userProperties).length > 0) properties.userProperties = userProperties;
    await this.peer.publish(INVOKE, resp(...words), { properties });
    const { payload, packet } = await this.peer.next();
    assert.deepEqual(packet.properties.correlationData, correlationData);
    assert.equal(packet.properties.userProperties.__stat, "200");
    return { payload: payload.toString(), version: packet.properties.userProperties.__ts };
  }

  async ask(words, options) {
    return (await this.call(words, options)).payload;
  }
}

for (const sdk of [false, true]) {
  const dialect = sdk ? "as the official clients ask" : "as published";
  const notMet = sdk ? ":-1\r\n" : "-1\r\n";

  test(`set, get, del, vdel, ${dialect}`, needs, async () => {
    const [store, key] = [await Store.connect({ sdk }), name("key")];
    assert.equal(await store.ask(["get", key]), "$-1\r\n");
    const { payload, version } = await store.call(["set", key, "value"]);
    assert.equal(payload, "+OK\r\n");
    assert.match(version, /^\d{13}:\d+:StateStore$/);
    assert.deepEqual(await store.call(["get", key]), { payload: "$5\r\nvalue\r\n", version });
    assert.equal(await store.ask(["set", key, "other", "nx"]), notMet);
    assert.equal(await store.ask(["SET", key, "other", "NEX", "PX", "60000"]), notMet);
    assert.equal(await store.ask(["SET", key, "value", "NEX", "PX", "60000"]), "+OK\r\n");
    assert.equal(await store.ask(["vdel", key, "other"]), notMet);
    assert.equal(await store.ask(["vdel", key, "value"]), ":1\r\n");
    assert.equal(await store.ask(["del", key]), ":0\r\n");
    assert.equal(await store.ask(["SET", key]), "-ERR wrong number of arguments\r\n");
    assert.equal(await store.ask(["NOPE", key]), "-ERR unknown command\r\n");
    assert.equal(await store.ask(["SCAN", `${key}*`]), "*1\r\n*0\r\n");
    await store.peer.leave();
  });

  test(`notifications, ${dialect}`, needs, async () => {
    const [watcher, writer, key] = [await Store.connect({ sdk }), await Store.connect(), name("key")];
    await watcher.peer.subscribe(`${NOTIFY}/${hex(watcher.peer.id)}/command/notify/${hex(key)}`);
    assert.equal(await watcher.ask(["KEYNOTIFY", key]), "+OK\r\n");
    const { version } = await writer.call(["SET", key, "abc", "PX", "100"]);
    const told = await watcher.peer.next();
    assert.equal(told.payload.toString(), "*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$3\r\nabc\r\n");
    assert.equal(told.topic, `${NOTIFY}/${hex(watcher.peer.id)}/command/notify/${hex(key)}`);
    assert.equal(told.packet.properties.userProperties.__ts, version);
    const expired = await watcher.peer.next();
    assert.equal(
      expired.payload.toString(),
      sdk ? "*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n" : "*2\r\n$6\r\nNOTIFY\r\n$3\r\nDEL\r\n",
    );
    assert.equal(await watcher.ask(["KEYNOTIFY", key, "STOP"]), "+OK\r\n");
    assert.equal(await watcher.ask(["KEYNOTIFY", key, "STOP"]), ":0\r\n");
    for (const store of [watcher, writer]) await store.peer.leave();
  });
}

test("fencing", needs, async () => {
  const [store, key, lock] = [await Store.connect(), name("key"), name("lock")];
  const { version: old } = await store.call(["SET", lock, "js", "NEX", "PX", "60000"]);
  const { version: token } = await store.call(["SET", lock, "js", "NEX", "PX", "60000"]);
  assert.equal(await store.ask(["SET", key, "1"], { token }), "+OK\r\n");
  assert.equal(await store.ask(["SET", key, "2"]), "-ERR a fencing token is required for this request\r\n");
  assert.equal(
    await store.ask(["SET", key, "2"], { token: old }),
    "-ERR the request fencing token is a lower version that the fencing token protecting the resource\r\n",
  );
  assert.equal(await store.ask(["DEL", key], { token }), ":1\r\n");
  await store.peer.leave();
});

test("what was answered survives a kill", needs, async () => {
  const key = name("durable");
  const first = await Store.connect();
  const { version } = await first.call(["SET", key, "value"]);
  await server.kill();
  await first.peer.closed;
  await server.start();
  const second = await Store.connect();
  assert.deepEqual(await second.call(["GET", key]), { payload: "$5\r\nvalue\r\n", version });
  await second.peer.leave();
});
