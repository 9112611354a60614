// Reads a key.
"use strict";

const { createStoreNode, fromValue, keyOf, onInput } = require("./store-node.js");

module.exports = (RED) => {
  function StateholdGet(settings) {
    const server = createStoreNode(RED, this, settings);
    if (!server) return;
    onInput(this, server, async (msg, store) => {
      const entry = await store.get(keyOf(settings, msg));
      if (!entry) return [null, { ...msg, payload: null, version: undefined }];
      return [{ ...msg, payload: fromValue(entry.value, settings.as), version: `${entry.version}` }, null];
    });
  }
  RED.nodes.registerType("statehold-get", StateholdGet);
};
