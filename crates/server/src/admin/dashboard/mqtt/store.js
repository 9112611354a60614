// The state store over MQTT: requests to its topic, replies to one of our own (docs/state-store.md).

import { MqttError } from "./reasons.js";

/** @typedef {import("./client.js").Client} Client */
/** @typedef {{ value: Uint8Array, version: string, fencing: string | null, expiresAt: number | "never" | null }} Entry null: the server does not say */
/** @typedef {{ body: any, version: string, user: Map<string, string> }} Reply */
/** @typedef {{ resolve: (reply: Reply) => void, reject: (error: Error) => void }} Waiting */

const INVOKE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
const ANSWER_MS = 10_000;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** What to do about an error of the store. @type {[string, string][]} */
const NEXT = [
  [
    "not authorized",
    "Your login may not do this with this key. Use another one, or let somebody add the right to the policy (docs/authorization.md).",
  ],
  ["too far in the future", "This computer's clock is ahead of the server's. Set it, and try again."],
  [
    "fencing token is required",
    "The key is held by a lock. Enter the token of its holder, if you know that it is gone.",
  ],
  ["lower version", "A newer holder has the lock. Enter its fencing token, if you know that it is gone."],
  ["quota", "Delete keys, or raise state_store.keys_max or state_store.bytes_max."],
  ["unavailable", "No leader at the moment. Look at the page Groups, and try again."],
];

export class Store {
  /** @type {Map<string, Waiting>} */
  #waiting = new Map();
  #asked = 0;

  /** @param {Client} client */
  constructor(client) {
    this.client = client;
    // One of its own response topics, for which a policy needs no rule; in hexadecimal digits any client id is a level.
    const name = [...encoder.encode(client.clientId)].map((byte) => byte.toString(16).padStart(2, "0").toUpperCase());
    this.topic = `clients/${name.join("")}/${INVOKE}/response`;
    this.listener = (/** @type {import("./client.js").Message} */ message) => this.#reply(message);
  }

  /** @param {Client} client */
  static async open(client) {
    const store = new Store(client);
    await client.subscribe(store.topic, 1, store.listener);
    return store;
  }

  /**
   * Keys that fit a glob, a page of them.
   * @param {string} pattern
   * @param {Uint8Array} [token]
   * @returns {Promise<{ keys: string[], token: Uint8Array | null }>}
   */
  async scan(pattern, token) {
    const { body } = await this.#ask(["SCAN", pattern, ...(token ? [token] : [])]);
    const [keys, next] = /** @type {[Uint8Array[], Uint8Array?]} */ (body);
    return { keys: keys.map((key) => decoder.decode(key)), token: next ?? null };
  }

  /**
   * @param {string} key
   * @returns {Promise<Entry | null>}
   */
  async get(key) {
    const { body, version, user } = await this.#ask(["GET", key], { details: true });
    if (body === null) return null;
    const expires = user.get("statehold-expires-at");
    const fencing = user.get("statehold-fencing-token");
    return {
      value: body,
      version,
      fencing: fencing === undefined ? null : fencing === "none" ? "" : fencing,
      expiresAt: expires === undefined ? null : expires === "never" ? "never" : Number(expires),
    };
  }

  /**
   * Writes a value; resolves to whether its condition was met.
   * @param {string} key
   * @param {Uint8Array} value
   * @param {{ isNew?: boolean, instead?: Uint8Array, expiresIn?: number, fencing?: string }} options `instead`: only if the key has this value
   */
  async set(key, value, { isNew = false, instead, expiresIn, fencing }) {
    /** @type {(string | Uint8Array)[]} */
    const words = ["SET", key, value];
    if (isNew) words.push("NX");
    if (instead) words.push("NEX", instead);
    if (expiresIn !== undefined) words.push("PX", String(expiresIn));
    const { body } = await this.#ask(words, { fencing, isWrite: true });
    return body === "OK";
  }

  /**
   * Deletes a key if it has this value; resolves to whether it did.
   * @param {string} key
   * @param {Uint8Array} value
   * @param {string} [fencing]
   */
  async delete(key, value, fencing) {
    const { body } = await this.#ask(["VDEL", key, value], { fencing, isWrite: true });
    return body === 1;
  }

  /**
   * @param {(string | Uint8Array)[]} words
   * @param {{ fencing?: string | undefined, isWrite?: boolean, details?: boolean }} [options]
   * @returns {Promise<Reply>}
   */
  async #ask(words, { fencing, isWrite = false, details = false } = {}) {
    const id = `${++this.#asked}-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
    /** @type {[string, string][]} */
    const user = [["__protVer", "1.0"]];
    if (isWrite) user.push(["__ts", `${Date.now()}:0:dashboard`]);
    if (fencing) user.push(["__ft", fencing]);
    if (details) user.push(["statehold-details", "true"]);
    const properties = {
      responseTopic: this.topic,
      correlationData: encoder.encode(id),
      messageExpiry: ANSWER_MS / 1_000,
      user,
    };
    const replied = new Promise((/** @type {(reply: Reply) => void} */ resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      setTimeout(() => {
        if (this.#waiting.delete(id))
          reject(
            new MqttError(
              "The state store did not answer within 10 seconds",
              undefined,
              "",
              "Look at the page Groups whether the key's group has a leader.",
            ),
          );
      }, ANSWER_MS);
    });
    // A reply may be there before the acknowledgement; whichever fails first is what is said.
    const [reply] = await Promise.all([replied, this.client.publish(INVOKE, resp(words), { qos: 1, properties })]);
    return reply;
  }

  /** @param {import("./client.js").Message} message */
  #reply({ payload, properties }) {
    const id = decoder.decode(properties.correlationData ?? new Uint8Array());
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    this.#waiting.delete(id);
    const user = new Map(properties.user ?? []);
    try {
      const [body] = parse(payload, 0);
      waiting.resolve({ body, version: user.get("__ts") ?? "", user });
    } catch (error) {
      waiting.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** @param {(string | Uint8Array)[]} words */
function resp(words) {
  /** @type {Uint8Array[]} */
  const parts = [encoder.encode(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = typeof word === "string" ? encoder.encode(word) : word;
    parts.push(encoder.encode(`$${bytes.length}\r\n`), bytes, encoder.encode("\r\n"));
  }
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * What a reply says, and where it ends; an error that the store has answered with is thrown.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {[any, number]}
 */
function parse(bytes, at) {
  const end = bytes.indexOf(13, at);
  if (end < 0) throw new MqttError("The state store's answer is not understood");
  const line = decoder.decode(bytes.subarray(at + 1, end));
  const next = end + 2;
  switch (String.fromCharCode(bytes[at] ?? 0)) {
    case "+":
      return [line, next];
    case ":":
      return [Number(line), next];
    case "-":
      throw line === "1" ? new MqttError("The condition is not met") : storeError(line);
    case "$": {
      const length = Number(line);
      return length < 0 ? [null, next] : [bytes.slice(next, next + length), next + length + 2];
    }
    case "*": {
      const items = [];
      let from = next;
      for (let count = 0; count < Number(line); count++) {
        const [item, to] = parse(bytes, from);
        items.push(item);
        from = to;
      }
      return [items, from];
    }
    default:
      throw new MqttError("The state store's answer is not understood");
  }
}

/** @param {string} line */
function storeError(line) {
  const words = line.replace(/^ERR /, "");
  const next = NEXT.find(([part]) => words.includes(part))?.[1] ?? "";
  return new MqttError(`The state store says: ${words}`, undefined, "", next);
}
