// The nodes in flows of Node-RED's own test helper, against a server that runs.
"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");

const helper = require("node-red-node-test-helper");

helper.init(require.resolve("node-red"));

const NODES = ["config", "get", "set", "delete", "watch", "lock"].map((name) => require(`../nodes/${name}.js`));
let server;

before(async () => {
  // A module of the other kind.
  const { Server } = await import("../../../interop/js/server.js");
  server = new Server();
  await server.start();
  await new Promise((resolve) => helper.startServer(resolve));
});
after(async () => {
  await new Promise((resolve) => helper.stopServer(resolve));
  await server.stop();
});

let flows = 0;

/** A flow with these nodes, each of whose outputs goes to a list. */
async function flow(nodes, run) {
  const id = `${(flows += 1)}`;
  const config = { id: `server${id}`, type: "statehold-config", address: server.address, timeoutMs: "5000" };
  const outputs = nodes.flatMap((node) => (node.outputs ?? []).map((output) => ({ id: output, type: "helper" })));
  const wired = nodes.map(({ outputs: names = [], ...node }) => ({ ...node, server: config.id, wires: names.map((name) => [name]) }));
  await helper.load(NODES, [config, ...wired, ...outputs]);
  const arrived = new Map();
  for (const { id: output } of outputs) {
    const messages = { taken: [], waiting: [] };
    arrived.set(output, messages);
    helper.getNode(output).on("input", (msg) => {
      const waiting = messages.waiting.shift();
      if (waiting) waiting(msg);
      else messages.taken.push(msg);
    });
  }
  const next = (output) => {
    const { taken, waiting } = arrived.get(output);
    return taken.length > 0 ? Promise.resolve(taken.shift()) : new Promise((resolve) => waiting.push(resolve));
  };
  const send = (node, msg) => helper.getNode(node).receive(msg);
  const error = (node) =>
    new Promise((resolve) => helper.getNode(node).once("call:error", (call) => resolve(call.firstArg)));
  try {
    await run({ next, send, error, config: helper.getNode(config.id) });
  } finally {
    await helper.unload();
  }
}

const set = (options) => ({ id: "set", type: "statehold-set", outputs: ["stored", "not applied"], ...options });
const get = (options) => ({ id: "get", type: "statehold-get", outputs: ["found", "missing"], ...options });
const TIMEOUT = { timeout: 30_000 };

test("set and get", TIMEOUT, () =>
  flow([set({ key: "k1" }), get({ as: "json" })], async ({ next, send }) => {
    send("get", { topic: "k1" });
    assert.equal((await next("missing")).payload, null);
    send("set", { payload: { speed: 7 } });
    const { version } = await next("stored");
    send("get", { key: "k1", topic: "kept" });
    const found = await next("found");
    assert.deepEqual([found.payload, found.version, found.topic], [{ speed: 7 }, version, "kept"]);
  }));

test("conditions and expiry", TIMEOUT, () =>
  flow([set({ key: "k2", condition: "absent-or" }), get({ key: "k2" })], async ({ next, send }) => {
    send("set", { payload: "a", expected: "x" });
    await next("stored");
    send("set", { payload: "b", expected: "x" });
    assert.match((await next("not applied")).version, /^\d+:\d+:StateStore$/);
    send("set", { payload: "b", expected: "a", expiresInMs: 60_000 });
    await next("stored");
    send("get", {});
    assert.equal((await next("found")).payload, "b");
  }));

test("delete, perhaps only a certain value", TIMEOUT, () => {
  const node = (id, options) => ({ id, type: "statehold-delete", key: "k3", outputs: [`${id} yes`, `${id} no`], ...options });
  return flow([set({ key: "k3" }), node("vdel", { onlyValue: true }), node("del", {})], async ({ next, send }) => {
    send("set", { payload: "a" });
    await next("stored");
    send("vdel", { payload: "b" });
    assert.equal((await next("vdel no")).outcome, "other-value");
    send("vdel", { payload: "a" });
    assert.equal((await next("vdel yes")).outcome, "deleted");
    send("del", {});
    assert.equal((await next("del no")).outcome, "missing");
  });
});

test("watch, also over a server that was away", TIMEOUT, () =>
  flow([set({ key: "k4" }), { id: "watch", type: "statehold-watch", key: "k4", outputs: ["change"] }], async ({ next, send }) => {
    const events = [await next("change")];
    assert.deepEqual([events[0].event, events[0].payload, events[0].topic], ["start", null, "k4"]);
    send("set", { payload: "a" });
    const change = await next("change");
    assert.deepEqual([change.event, change.payload], ["set", "a"]);
    await server.kill();
    await server.start();
    const gap = await next("change");
    assert.deepEqual([gap.event, gap.payload], ["gap", "a"]);
  }));

test("a lock, its token, and what it protects", TIMEOUT, () => {
  const lock = (id, options) => ({ id, type: "statehold-lock", key: "l5", outputs: [`${id} 1`, `${id} 2`, `${id} 3`], ...options });
  const nodes = [lock("lock", { leaseMs: "500" }), lock("try", { waitMs: "0" }), lock("give back", { action: "release" }), set({ key: "k5" })];
  return flow([...nodes, set({ id: "steal", key: "l5", outputs: ["stolen"] })], async ({ next, send, error }) => {
    send("lock", { payload: "7" });
    const had = await next("lock 1");
    assert.match(had.fencingToken, /^\d+:\d+:StateStore$/);
    send("try", {});
    await next("try 2");
    send("set", had);
    await next("stored");
    const refused = error("set");
    send("set", { payload: "8" });
    assert.equal((await refused).name, "RefusedByStore");
    send("give back", had);
    assert.equal((await next("give back 1")).fencingToken, undefined);
    send("give back", {});
    await next("give back 2");
    send("lock", {});
    await next("lock 1");
    send("steal", { payload: "thief" });
    assert.equal((await next("lock 3")).payload, "taken-over");
  });
});

test("a flow that stops gives its locks back", TIMEOUT, async () => {
  const lock = { id: "lock", type: "statehold-lock", key: "l6", leaseMs: "60000", waitMs: "0", outputs: ["had", "not in time"] };
  for (let time = 0; time < 2; time += 1) {
    await flow([lock], async ({ next, send }) => {
      send("lock", {});
      await next("had");
    });
  }
});

test("without a server a message is an error in time, and without a key at once", TIMEOUT, () =>
  flow([get({})], async ({ send, error, config }) => {
    const keyless = error("get");
    send("get", {});
    assert.match((await keyless).message, /there is no key/);
    await server.kill();
    const late = error("get");
    send("get", { key: "k" });
    assert.equal((await late).name, "TimedOut");
    assert.notEqual(config.state.type, "connected");
    await server.start();
  }));
