// Sets a key, perhaps only if it is in a certain state.
"use strict";

const { createStoreNode, fencingOf, keyOf, onInput, toValue } = require("./store-node.js");

module.exports = (RED) => {
  function StateholdSet(settings) {
    const server = createStoreNode(RED, this, settings);
    if (!server) return;
    onInput(this, server, async (msg, store, statehold) => {
      const options = { ...condition(settings, msg), ...expiry(settings, msg), ...fencingOf(msg, statehold) };
      const { stored, version } = await store.set(keyOf(settings, msg), toValue(msg.payload), options);
      const answer = { ...msg, version: version && `${version}` };
      return stored ? [answer, null] : [null, answer];
    });
  }
  RED.nodes.registerType("statehold-set", StateholdSet);
};

function condition({ condition }, msg) {
  switch (condition) {
    case "absent":
      return { ifAbsent: true };
    case "absent-or-equal":
      return { ifAbsentOrEqual: true };
    case "absent-or":
      return { ifAbsentOr: toValue(msg.expected) };
    default:
      return {};
  }
}

function expiry(settings, msg) {
  const expiresInMs = Number(msg.expiresInMs ?? settings.expiresInMs);
  return expiresInMs ? { expiresInMs } : {};
}
