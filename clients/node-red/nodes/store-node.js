// What the nodes of the state store share: the connection, its state below the node, and messages in and out.
"use strict";

const STATUS = {
  connecting: { fill: "yellow", shape: "ring", text: "connecting" },
  connected: { fill: "green", shape: "dot", text: "connected" },
  waiting: { fill: "red", shape: "ring", text: "disconnected" },
  ended: { fill: "red", shape: "dot", text: "ended" },
};

/** Makes a node of the state store. Returns the node of its connection, or nothing if the flow has none. */
function createStoreNode(RED, node, settings) {
  RED.nodes.createNode(node, settings);
  const server = RED.nodes.getNode(settings.server);
  if (!server) {
    node.status({ fill: "red", shape: "ring", text: "no server" });
    node.error("no server is set: open the node and choose one");
    return undefined;
  }
  const show = (state) => node.status(STATUS[state.type]);
  server.on("state", show);
  show(server.state);
  node.on("close", () => server.removeListener("state", show));
  return server;
}

/** Calls `answer(msg, store, statehold)` for each message; what it returns is sent, one message for each output. */
function onInput(node, server, answer) {
  node.on("input", async (msg, send, done) => {
    try {
      send(await answer(msg, await server.store(), server.statehold));
      done();
    } catch (error) {
      // For catch nodes: `name` tells kinds of errors apart, `reason` the refusals of the store.
      done(error);
    }
  });
}

/** The key that is set in the node, else `msg.key`, else the topic. */
function keyOf(settings, msg) {
  const key = settings.key || msg.key || msg.topic;
  if (typeof key !== "string" && !Buffer.isBuffer(key)) throw new TypeError("there is no key: set it in the node, or as msg.key");
  return key;
}

/** A payload as it is stored: text and bytes as they are, everything else as JSON. */
function toValue(payload) {
  if (typeof payload === "string" || payload instanceof Uint8Array) return payload;
  if (payload === undefined) throw new TypeError("there is no value: set msg.payload");
  return JSON.stringify(payload);
}

/** A value as the node's setting `as` says: text, JSON or a buffer. */
function fromValue(value, as) {
  const buffer = Buffer.from(value);
  if (as === "buffer") return buffer;
  return as === "json" ? JSON.parse(buffer.toString()) : buffer.toString();
}

/** The fencing token that came with a message, as `msg.fencingToken`. */
function fencingOf(msg, { Hlc }) {
  return msg.fencingToken ? { fencing: Hlc.parse(String(msg.fencingToken)) } : {};
}

module.exports = { createStoreNode, onInput, keyOf, toValue, fromValue, fencingOf };
