// The connection to a server, which the other nodes share. It connects when the flow starts, and again whenever it has to.
"use strict";

module.exports = (RED) => {
  class StateholdConfig {
    constructor(settings) {
      RED.nodes.createNode(this, settings);
      // As many nodes as a flow has listen to its state.
      this.setMaxListeners(0);
      this.timeoutMs = Number(settings.timeoutMs) || 10_000;
      this.state = { type: "connecting" };
      // The locks that flows hold, by their keys.
      this.locks = new Map();
      this.abort = new AbortController();
      this.on("close", (done) => this.end().then(done, done));
      this.client = this.connect(settings);
      this.client.catch((error) => {
        if (!this.abort.signal.aborted) this.error(error.message);
      });
    }

    async connect(settings) {
      // A module of the other kind: Node-RED loads nodes with require.
      this.statehold = await import("statehold");
      const options = { address: settings.address, timeoutMs: this.timeoutMs, reconnect: "always", ...this.identity(settings) };
      const onStateChange = (state) => {
        this.state = state;
        this.emit("state", state);
      };
      return this.statehold.Client.connect(options, { signal: this.abort.signal, onStateChange });
    }

    identity(settings) {
      const { username, password } = this.credentials ?? {};
      const tls = RED.nodes.getNode(settings.tls)?.addTLSOptions({}) ?? {};
      const given = Object.entries({
        clientId: settings.clientId,
        username,
        password,
        tls: pick(tls, ["ca", "cert", "key", "servername"]),
      });
      return Object.fromEntries(given.filter(([, value]) => value));
    }

    /** The state store, as soon as there was a connection. Rejects if that takes longer than a request may. */
    async store() {
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no connection within ${this.timeoutMs} ms; nothing was sent`)), this.timeoutMs);
      });
      try {
        return (await Promise.race([this.client, late])).stateStore();
      } finally {
        clearTimeout(timer);
      }
    }

    /** Gives the locks back that flows hold, and disconnects. */
    async end() {
      this.abort.abort();
      const client = await this.client.catch(() => undefined);
      await Promise.allSettled(Array.from(this.locks.values(), (lock) => lock.release()));
      client?.disconnect();
    }
  }

  RED.nodes.registerType("statehold-config", StateholdConfig, {
    credentials: { username: { type: "text" }, password: { type: "password" } },
  });
};

function pick(from, names) {
  const found = names.filter((name) => from[name]).map((name) => [name, from[name]]);
  return found.length > 0 ? Object.fromEntries(found) : undefined;
}
