// One MQTT.js client, with what comes to it in a queue. Runs in Node, and in a page of browser.js.
import mqtt from "mqtt";

let number = 0;
// Pages count for themselves.
const run = Math.random().toString(36).slice(2, 8);

export const name = (stem) => `${stem}-js-${run}-${(number += 1)}`;

export class Peer {
  #waiting = [];
  #messages = [];

  static async connect(server, { id = name("peer"), version = 5, clean = true, expiry, ...options } = {}) {
    const peer = new Peer();
    peer.id = id;
    peer.client = mqtt.connect(server.url ?? `mqtt://${server.address}`, {
      clientId: id,
      protocolVersion: version,
      clean,
      reconnectPeriod: 0,
      ...(version === 5 && { properties: { sessionExpiryInterval: expiry ?? 0, ...options.properties } }),
      ...options.more,
    });
    peer.client.on("message", (topic, payload, packet) => peer.#arrived({ topic, payload, packet }));
    peer.disconnected = new Promise((resolve) => peer.client.on("disconnect", resolve));
    peer.closed = new Promise((resolve) => peer.client.on("close", resolve));
    peer.connack = await new Promise((resolve, reject) => {
      peer.client.once("connect", resolve);
      peer.client.once("error", reject);
      // A browser does not say why.
      peer.closed.then(() => reject(new Error("closed before CONNACK")));
    });
    return peer;
  }

  #arrived(message) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(message);
    else this.#messages.push(message);
  }

  next() {
    if (this.#messages.length > 0) return Promise.resolve(this.#messages.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** All that was on its way: a message to itself marks the place. */
  async came() {
    const marker = name("marker");
    await this.subscribe(marker);
    await this.publish(marker, "marker");
    const messages = [];
    for (let message = await this.next(); message.topic !== marker; message = await this.next()) messages.push(message);
    await this.client.unsubscribeAsync(marker);
    return messages;
  }

  subscribe(filter, options = {}) {
    return this.client.subscribeAsync(filter, { qos: 1, ...options });
  }

  publish(topic, payload, options = {}) {
    return this.client.publishAsync(topic, payload, { qos: 1, ...options });
  }

  leave() {
    return this.client.endAsync();
  }

  /** Drops the connection without a DISCONNECT. */
  async cut() {
    this.client.stream.destroy();
    await this.closed;
    await this.client.endAsync(true);
  }
}
