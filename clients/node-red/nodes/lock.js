// Takes a lock, or gives it back. A lock is held by the node of the connection, from one of these nodes to the other.
"use strict";

const { createStoreNode, keyOf, onInput } = require("./store-node.js");

module.exports = (RED) => {
  function StateholdLock(settings) {
    const server = createStoreNode(RED, this, settings);
    if (!server) return;
    const abort = new AbortController();
    this.on("close", () => abort.abort());
    if (settings.action === "release") onInput(this, server, (msg) => release(server, keyOf(settings, msg), msg));
    else onInput(this, server, (msg, store) => acquire(this, server, store, settings, msg, abort.signal));
  }
  RED.nodes.registerType("statehold-lock", StateholdLock);
};

/** Outputs: had, with `msg.fencingToken`; not in time; later, when it is lost. */
async function acquire(node, server, store, settings, msg, signal) {
  const { Lock, NotInTime } = server.statehold;
  const key = keyOf(settings, msg);
  const waitMs = settings.waitMs === "" || settings.waitMs === undefined ? {} : { waitMs: Number(settings.waitMs) };
  let lock;
  try {
    lock = await Lock.acquire(store, key, { leaseMs: Number(settings.leaseMs) || 10_000, ...waitMs, signal });
  } catch (error) {
    if (error instanceof NotInTime) return [null, msg, null];
    throw error;
  }
  const name = String(key);
  server.locks.set(name, lock);
  lock.lost().then((how) => {
    if (server.locks.get(name) === lock) server.locks.delete(name);
    if (how !== "released") node.send([null, null, { topic: name, payload: how }]);
  });
  return [{ ...msg, fencingToken: `${lock.token}` }, null, null];
}

/** Outputs: given back; was not held any more. */
async function release(server, key, msg) {
  const lock = server.locks.get(String(key));
  if (!lock) return [null, msg];
  await lock.release();
  const { fencingToken, ...rest } = msg;
  return [rest, null];
}
