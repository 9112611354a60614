// A client of MQTT 5 over WebSocket. It does not connect again by itself: whoever uses it sees what happened, and says when.

import * as packet from "./packet.js";
import { MqttError } from "./reasons.js";

/** @typedef {ReturnType<typeof packet.readPublish>} Message */
/** @typedef {(message: Message) => void} Listener */
/** @typedef {{ url: string, clientId: string, userName: string, password: string }} Login */
/** @typedef {{ resolve: (codes: number[]) => void, reject: (error: Error) => void, what: string }} Waiting */

const KEEP_ALIVE_S = 30;
const ANSWER_MS = 10_000;

/** So much is taken of one packet. What is larger the server does not send to such a client. */
const PACKET_BYTES_MAX = 16 * 1024 * 1024;

export class Client {
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  /** @type {Map<string, Set<Listener>>} */
  #listeners = new Map();
  #received = new Uint8Array();
  #lastId = 0;
  #isClosed = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #pings = undefined;
  /** Why it ended, by the server's own word. @type {MqttError | null} */
  #told = null;
  /** What the server says of the connection. @type {packet.Properties} */
  properties = {};
  /** Called once, when the connection has ended. @type {(why: MqttError | null) => void} */
  onClose = () => {};

  /**
   * @param {WebSocket} socket
   * @param {Login} login
   */
  constructor(socket, login) {
    this.socket = socket;
    this.login = login;
    this.clientId = login.clientId;
  }

  /**
   * Connects, and logs in.
   * @param {Login} login
   * @returns {Promise<Client>}
   */
  static async connect(login) {
    const socket = await open(login.url);
    const client = new Client(socket, login);
    const answered = new Promise((/** @type {(raw: packet.Raw) => void} */ resolve, reject) => {
      client.#onConnack = resolve;
      client.onClose = (why) => reject(why ?? new MqttError("The server closed the connection before it answered"));
      setTimeout(() => reject(new MqttError("The server did not answer CONNECT within 10 seconds")), ANSWER_MS);
    });
    socket.onmessage = ({ data }) => client.#receive(new Uint8Array(data));
    socket.onclose = () => client.#ended();
    const properties = { receiveMaximum: 1_000, maximumPacketSize: PACKET_BYTES_MAX };
    socket.send(packet.connect({ ...login, keepAlive: KEEP_ALIVE_S, properties }));
    try {
      const { code, properties } = packet.readConnack(await answered);
      if (code !== 0) throw new MqttError("The server refused the login", code, properties.reasonString);
      client.properties = properties;
      client.clientId = properties.assignedClientId ?? login.clientId;
    } catch (error) {
      client.onClose = () => {};
      client.close();
      throw error;
    }
    client.onClose = () => {};
    const every = Math.min(KEEP_ALIVE_S, client.properties.serverKeepAlive || KEEP_ALIVE_S);
    client.#pings = setInterval(() => client.#send(packet.pingreq()), every * 500);
    return client;
  }

  /** @type {((raw: packet.Raw) => void) | null} */
  #onConnack = null;

  /**
   * @param {string} topic
   * @param {Uint8Array} payload
   * @param {{ qos?: number, retain?: boolean, properties?: packet.Properties }} [options]
   */
  async publish(topic, payload, { qos = 0, retain = false, properties = {} } = {}) {
    if (qos === 0) return this.#send(packet.publish({ id: 0, topic, payload, qos, retain, properties }));
    await this.#ask("The message was refused", (id) => packet.publish({ id, topic, payload, qos, retain, properties }));
  }

  /**
   * Hands messages of a filter to a listener; resolves to the QoS that was granted.
   * @param {string} filter
   * @param {number} qos
   * @param {Listener} listener
   */
  async subscribe(filter, qos, listener) {
    const listeners = this.#listeners.get(filter) ?? new Set();
    this.#listeners.set(filter, listeners.add(listener));
    try {
      const [granted = 0] = await this.#ask(`The subscription to ${filter} was refused`, (id) =>
        packet.subscribe(id, filter, qos),
      );
      return granted;
    } catch (error) {
      this.#forget(filter, listener);
      throw error;
    }
  }

  /**
   * @param {string} filter
   * @param {Listener} listener
   */
  async unsubscribe(filter, listener) {
    if (this.#forget(filter, listener) && !this.#isClosed)
      await this.#ask("The subscription could not be ended", (id) => packet.unsubscribe(id, filter));
  }

  /**
   * Whether it was the last listener of the filter.
   * @param {string} filter
   * @param {Listener} listener
   */
  #forget(filter, listener) {
    const listeners = this.#listeners.get(filter);
    listeners?.delete(listener);
    return listeners?.size === 0 && this.#listeners.delete(filter);
  }

  close() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(packet.disconnect());
    this.socket.close();
    this.#ended();
  }

  /**
   * @param {string} what
   * @param {(id: number) => Uint8Array} make
   * @returns {Promise<number[]>}
   */
  #ask(what, make) {
    do this.#lastId = (this.#lastId % 65_535) + 1;
    while (this.#waiting.has(this.#lastId));
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(id);
        reject(
          new MqttError(
            "The server did not answer within 10 seconds",
            undefined,
            "",
            "Look at the overview whether the node is well, and try again.",
          ),
        );
      }, ANSWER_MS);
      const settle = (/** @type {(value: any) => void} */ then) => (/** @type {any} */ value) => (
        clearTimeout(late),
        then(value)
      );
      this.#waiting.set(id, { resolve: settle(resolve), reject: settle(reject), what });
      try {
        this.#send(make(id));
      } catch (error) {
        this.#waiting.delete(id);
        settle(reject)(error);
      }
    });
  }

  /** @param {Uint8Array} bytes */
  #send(bytes) {
    if (this.#isClosed) throw new MqttError("The connection has ended", undefined, "", "Connect again.");
    this.socket.send(/** @type {Uint8Array<ArrayBuffer>} */ (bytes));
  }

  /** @param {Uint8Array} bytes */
  #receive(bytes) {
    const all = new Uint8Array(this.#received.length + bytes.length);
    all.set(this.#received);
    all.set(bytes, this.#received.length);
    let rest = all;
    try {
      for (let found = packet.first(rest); found; found = packet.first(rest)) {
        rest = rest.subarray(found.size);
        this.#packet(found.raw);
      }
    } catch (error) {
      this.#told = new MqttError(error instanceof Error ? error.message : String(error));
      this.close();
    }
    this.#received = rest.slice();
  }

  /** @param {packet.Raw} raw */
  #packet(raw) {
    switch (raw.type) {
      case packet.TYPE.CONNACK:
        return this.#onConnack?.(raw);
      case packet.TYPE.PUBLISH:
        return this.#message(packet.readPublish(raw));
      case packet.TYPE.PUBACK:
      case packet.TYPE.SUBACK:
      case packet.TYPE.UNSUBACK:
        return this.#answered(packet.readAck(raw));
      case packet.TYPE.DISCONNECT: {
        const { code, properties } = packet.readDisconnect(raw);
        this.#told = new MqttError("The server ended the connection", code, properties.reasonString);
      }
    }
  }

  /** @param {Message} message */
  #message(message) {
    if (message.qos > 0) this.#send(packet.puback(message.id));
    for (const [filter, listeners] of this.#listeners) {
      if (matches(filter, message.topic)) listeners.forEach((listener) => listener(message));
    }
  }

  /** @param {ReturnType<typeof packet.readAck>} ack */
  #answered({ id, codes, properties }) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    const refused = codes.find((code) => code >= 0x80);
    if (refused === undefined) waiting?.resolve(codes);
    else waiting?.reject(new MqttError(waiting.what, refused, properties.reasonString));
  }

  #ended() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#pings);
    const why = this.#told ?? new MqttError("The connection has ended", undefined, "", "Connect again.");
    this.#waiting.forEach(({ reject }) => reject(why));
    this.#waiting.clear();
    this.onClose(this.#told);
  }
}

/**
 * A browser does not tell a page why a WebSocket was refused, so all that may be is said.
 * @param {string} url
 * @returns {Promise<WebSocket>}
 */
function open(url) {
  return new Promise((resolve, reject) => {
    const next =
      `Is there a WebSocket listener at this address and path? Does its setting listeners.websocket.allowed_origins name this page, ` +
      `"${location.origin}", or is it empty? ` +
      (url.startsWith("wss:")
        ? "Does this browser trust its certificate?"
        : location.protocol === "https:"
          ? "From a page with https most browsers connect only to wss."
          : "");
    /** @type {WebSocket} */
    let socket;
    try {
      socket = new WebSocket(url, "mqtt");
    } catch {
      reject(
        new MqttError(`${url} is no address of a WebSocket`, undefined, "", "It looks like ws://127.0.0.1:8083/mqtt."),
      );
      return;
    }
    socket.binaryType = "arraybuffer";
    socket.onopen = () => resolve(socket);
    socket.onerror = () => reject(new MqttError(`No WebSocket at ${url}`, undefined, "", next));
  });
}

/**
 * Whether a topic fits a filter; a shared subscription's is behind its name.
 * @param {string} filter
 * @param {string} topic
 */
export function matches(filter, topic) {
  const levels = filter.startsWith("$share/") ? filter.split("/").slice(2) : filter.split("/");
  const names = topic.split("/");
  if (topic.startsWith("$") && (levels[0] === "#" || levels[0] === "+")) return false;
  for (const [index, level] of levels.entries()) {
    if (level === "#") return true;
    if (index >= names.length || (level !== "+" && level !== names[index])) return false;
  }
  return levels.length === names.length;
}
