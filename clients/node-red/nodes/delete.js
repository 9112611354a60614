// Deletes a key, perhaps only if it has a certain value.
"use strict";

const { createStoreNode, fencingOf, keyOf, onInput, toValue } = require("./store-node.js");

module.exports = (RED) => {
  function StateholdDelete(settings) {
    const server = createStoreNode(RED, this, settings);
    if (!server) return;
    onInput(this, server, async (msg, store, statehold) => {
      const [key, options] = [keyOf(settings, msg), fencingOf(msg, statehold)];
      const deletion = settings.onlyValue
        ? await store.vdel(key, toValue(msg.payload), options)
        : await store.delete(key, options);
      const { outcome, version } = deletion;
      const answer = { ...msg, outcome, version: version && `${version}` };
      return outcome === "deleted" ? [answer, null] : [null, answer];
    });
  }
  RED.nodes.registerType("statehold-delete", StateholdDelete);
};
