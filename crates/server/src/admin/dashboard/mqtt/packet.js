// Packets of MQTT 5, as far as a client needs them that publishes and subscribes with QoS 0 and 1.

/** @typedef {[string, string][]} UserProperties */
/** @typedef {{ type: number, flags: number, body: Uint8Array }} Raw */
/**
 * @typedef {object} Properties
 * @property {number} [sessionExpiry]
 * @property {number} [receiveMaximum]
 * @property {number} [messageExpiry]
 * @property {number} [payloadFormat]
 * @property {number} [serverKeepAlive]
 * @property {number} [maximumPacketSize]
 * @property {string} [contentType]
 * @property {string} [responseTopic]
 * @property {Uint8Array} [correlationData]
 * @property {string} [assignedClientId]
 * @property {string} [reasonString]
 * @property {UserProperties} [user]
 */

export const TYPE = {
  CONNECT: 1,
  CONNACK: 2,
  PUBLISH: 3,
  PUBACK: 4,
  SUBSCRIBE: 8,
  SUBACK: 9,
  UNSUBSCRIBE: 10,
  UNSUBACK: 11,
  PINGREQ: 12,
  PINGRESP: 13,
  DISCONNECT: 14,
};

/** The form of each property of the specification (2.2.2.2), and what it is called here if it is of use. @type {Record<number, [string, string?]>} */
const FORMS = {
  0x01: ["byte", "payloadFormat"],
  0x02: ["four", "messageExpiry"],
  0x03: ["text", "contentType"],
  0x08: ["text", "responseTopic"],
  0x09: ["bytes", "correlationData"],
  0x0b: ["variable"],
  0x11: ["four", "sessionExpiry"],
  0x12: ["text", "assignedClientId"],
  0x13: ["two", "serverKeepAlive"],
  0x15: ["text"],
  0x16: ["bytes"],
  0x17: ["byte"],
  0x18: ["four"],
  0x19: ["byte"],
  0x1a: ["text"],
  0x1c: ["text"],
  0x1f: ["text", "reasonString"],
  0x21: ["two", "receiveMaximum"],
  0x22: ["two"],
  0x23: ["two"],
  0x24: ["byte"],
  0x25: ["byte"],
  0x26: ["pair", "user"],
  0x27: ["four", "maximumPacketSize"],
  0x28: ["byte"],
  0x29: ["byte"],
  0x2a: ["byte"],
};
const CODES = new Map(
  Object.entries(FORMS).flatMap(([code, [form, name]]) => (name ? [[name, { code: Number(code), form }]] : [])),
);

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Bytes, put one behind the other. */
class Writer {
  /** @type {number[]} */
  bytes = [];

  /** @param {number} value @param {number} size */
  number(value, size) {
    for (let shift = size - 1; shift >= 0; shift--) this.bytes.push(Math.floor(value / 256 ** shift) % 256);
  }

  /** @param {number} value */
  variable(value) {
    do {
      const rest = Math.floor(value / 128);
      this.bytes.push((value % 128) + (rest > 0 ? 128 : 0));
      value = rest;
    } while (value > 0);
  }

  /** @param {ArrayLike<number>} bytes */
  raw(bytes) {
    for (let at = 0; at < bytes.length; at++) this.bytes.push(bytes[at] ?? 0);
  }

  /** @param {Uint8Array} bytes */
  binary(bytes) {
    if (bytes.length > 65_535) throw new Error("longer than the 65,535 bytes that MQTT allows here");
    this.number(bytes.length, 2);
    this.raw(bytes);
  }

  /** @param {string} text */
  text(text) {
    this.binary(encoder.encode(text));
  }

  /** @param {Properties} properties */
  properties(properties) {
    const inner = new Writer();
    for (const [name, value] of /** @type {[string, any][]} */ (Object.entries(properties))) {
      const known = CODES.get(name);
      if (!known || value === undefined) continue;
      const { code, form } = /** @type {{ code: number, form: string }} */ (known);
      if (name === "user") {
        for (const [key, said] of value) [inner.number(code, 1), inner.text(key), inner.text(said)];
        continue;
      }
      inner.number(code, 1);
      if (form === "text") inner.text(value);
      else if (form === "bytes") inner.binary(value);
      else inner.number(value, form === "four" ? 4 : form === "two" ? 2 : 1);
    }
    this.variable(inner.bytes.length);
    this.raw(inner.bytes);
  }
}

/** Bytes, taken one after the other; an error where there are too few. */
class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** @param {number} size */
  take(size) {
    if (this.at + size > this.bytes.length) throw new Error("the server sent a packet that ends too early");
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  /** @param {number} size */
  number(size) {
    return this.take(size).reduce((value, byte) => value * 256 + byte, 0);
  }

  variable() {
    let [value, unit] = [0, 1];
    for (let count = 0; count < 4; count++) {
      const byte = this.number(1);
      value += (byte & 127) * unit;
      if (byte < 128) return value;
      unit *= 128;
    }
    throw new Error("the server sent a length that is too long");
  }

  text() {
    return decoder.decode(this.take(this.number(2)));
  }

  rest() {
    return this.take(this.bytes.length - this.at);
  }

  /** @returns {Properties} */
  properties() {
    if (this.at === this.bytes.length) return {};
    const inner = new Reader(this.take(this.variable()));
    /** @type {Record<string, any>} */
    const found = {};
    while (inner.at < inner.bytes.length) {
      const [form, name] = FORMS[inner.variable()] ?? [];
      const value = inner.#property(form);
      if (name === "user") (found.user ??= []).push(value);
      else if (name) found[name] = value;
    }
    return found;
  }

  /** @param {string | undefined} form */
  #property(form) {
    switch (form) {
      case "byte":
        return this.number(1);
      case "two":
        return this.number(2);
      case "four":
        return this.number(4);
      case "variable":
        return this.variable();
      case "text":
        return this.text();
      case "pair":
        return [this.text(), this.text()];
      case "bytes":
        return this.take(this.number(2)).slice();
      default:
        throw new Error("the server sent a property that MQTT 5 does not have");
    }
  }
}

/**
 * @param {number} type
 * @param {number} flags
 * @param {Writer} body
 * @param {Uint8Array} [payload]
 */
function packet(type, flags, body, payload = new Uint8Array()) {
  const head = new Writer();
  head.number(type * 16 + flags, 1);
  head.variable(body.bytes.length + payload.length);
  const whole = new Uint8Array(head.bytes.length + body.bytes.length + payload.length);
  whole.set(head.bytes);
  whole.set(body.bytes, head.bytes.length);
  whole.set(payload, head.bytes.length + body.bytes.length);
  return whole;
}

/** @param {{ clientId: string, userName: string, password: string, keepAlive: number, properties: Properties }} connect */
export function connect({ clientId, userName, password, keepAlive, properties }) {
  const body = new Writer();
  body.text("MQTT");
  const flags = 2 + (userName ? 128 : 0) + (password ? 64 : 0);
  body.raw([5, flags]);
  body.number(keepAlive, 2);
  body.properties(properties);
  body.text(clientId);
  if (userName) body.text(userName);
  if (password) body.text(password);
  return packet(TYPE.CONNECT, 0, body);
}

/** @param {{ id: number, topic: string, payload: Uint8Array, qos: number, retain: boolean, properties: Properties }} publish */
export function publish({ id, topic, payload, qos, retain, properties }) {
  const body = new Writer();
  body.text(topic);
  if (qos > 0) body.number(id, 2);
  body.properties(properties);
  return packet(TYPE.PUBLISH, qos * 2 + (retain ? 1 : 0), body, payload);
}

/** @param {number} id */
export function puback(id) {
  const body = new Writer();
  body.number(id, 2);
  return packet(TYPE.PUBACK, 0, body);
}

/** @param {number} id @param {string} filter @param {number} qos */
export function subscribe(id, filter, qos) {
  const body = new Writer();
  body.number(id, 2);
  body.properties({});
  body.text(filter);
  body.number(qos, 1);
  return packet(TYPE.SUBSCRIBE, 2, body);
}

/** @param {number} id @param {string} filter */
export function unsubscribe(id, filter) {
  const body = new Writer();
  body.number(id, 2);
  body.properties({});
  body.text(filter);
  return packet(TYPE.UNSUBSCRIBE, 2, body);
}

export function pingreq() {
  return packet(TYPE.PINGREQ, 0, new Writer());
}

export function disconnect() {
  return packet(TYPE.DISCONNECT, 0, new Writer());
}

/**
 * The first packet of some bytes, and how many it takes; null while it is not all there.
 * @param {Uint8Array} bytes
 * @returns {{ raw: Raw, size: number } | null}
 */
export function first(bytes) {
  let [length, unit] = [0, 1];
  for (let at = 1; at < 5; at++) {
    const byte = bytes[at];
    if (byte === undefined) return null;
    length += (byte & 127) * unit;
    unit *= 128;
    if (byte >= 128) continue;
    const size = at + 1 + length;
    if (bytes.length < size) return null;
    const head = bytes[0] ?? 0;
    return { raw: { type: head >> 4, flags: head & 15, body: bytes.slice(at + 1, size) }, size };
  }
  throw new Error("the server sent a length that is too long");
}

/** @param {Raw} raw */
export function readConnack({ body }) {
  const reader = new Reader(body);
  const isPresent = reader.number(1) === 1;
  return { isPresent, code: reader.number(1), properties: reader.properties() };
}

/** @param {Raw} raw */
export function readPublish({ flags, body }) {
  const reader = new Reader(body);
  const topic = reader.text();
  const qos = (flags >> 1) & 3;
  const id = qos > 0 ? reader.number(2) : 0;
  const properties = reader.properties();
  return {
    topic,
    qos,
    id,
    isRetained: (flags & 1) === 1,
    isAgain: (flags & 8) === 8,
    properties,
    payload: reader.rest(),
  };
}

/** PUBACK, SUBACK, UNSUBACK: the identifier, properties and reason codes. @param {Raw} raw */
export function readAck({ type, body }) {
  const reader = new Reader(body);
  const id = reader.number(2);
  if (type === TYPE.PUBACK) {
    const code = reader.at < body.length ? reader.number(1) : 0;
    return { id, codes: [code], properties: reader.properties() };
  }
  const properties = reader.properties();
  return { id, codes: [...reader.rest()], properties };
}

/** @param {Raw} raw */
export function readDisconnect({ body }) {
  const reader = new Reader(body);
  const code = body.length > 0 ? reader.number(1) : 0;
  return { code, properties: reader.properties() };
}
