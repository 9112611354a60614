// Sends a message for each change of a key, and first what it is when the flow starts.
"use strict";

const { createStoreNode, fromValue } = require("./store-node.js");

module.exports = (RED) => {
  function StateholdWatch(settings) {
    const server = createStoreNode(RED, this, settings);
    if (!server) return;
    if (!settings.key) {
      this.error("no key is set: open the node and say which");
      return;
    }
    const watching = server.client.then((client) => client.stateStore().watch(settings.key));
    this.on("close", (done) => {
      watching.then((watch) => watch.close()).then(() => done(), () => done());
    });
    watching
      .then((watch) => follow(watch, server, settings, (msg) => this.send(msg)))
      .catch((error) => {
        // Why a client has ended is said by the node of the connection.
        if (server.state.type !== "ended") this.error(error.message);
      });
  }
  RED.nodes.registerType("statehold-watch", StateholdWatch);
};

async function follow(watch, server, settings, send) {
  const tell = (event, entry) => send(message(settings, event, entry));
  // What changed unseen is told by what the key is now.
  const read = async (event) => tell(event, (await (await server.store()).get(settings.key)) ?? {});
  await read("start");
  for await (const event of watch) {
    if (event.type === "gap") await read("gap");
    else tell(event.type, event);
  }
}

function message({ key, as }, event, { value, version }) {
  const payload = value === undefined ? null : fromValue(value, as);
  return { topic: key, event, payload, version: version && `${version}` };
}
