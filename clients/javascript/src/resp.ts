/** RESP as the state store speaks it: arrays of bulk strings out, and strict reading of what comes back. */

import { bytes, text, type Bytes } from "./bytes.js";

const [CR, LF] = [13, 10];

/** The bytes are not what they have to be. */
export class Malformed extends Error {}

/** An array of bulk strings. */
export function encode(words: readonly Bytes[]): Uint8Array {
  const parts = [bytes(`*${words.length}\r\n`)];
  for (const word of words.map(bytes)) parts.push(bytes(`$${word.length}\r\n`), word, bytes("\r\n"));
  const payload = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    payload.set(part, at);
    at += part.length;
  }
  return payload;
}

/** Reads from the front; every method throws `Malformed` if something else is there. */
export class Reader {
  #at = 0;

  constructor(private readonly payload: Uint8Array) {}

  /** A bulk string. */
  bulk(): Uint8Array {
    const length = this.#number("$");
    const [start, stop] = [this.#at, this.#at + length];
    if (this.payload[stop] !== CR || this.payload[stop + 1] !== LF) throw new Malformed();
    this.#at = stop + 2;
    // A copy, and no subclass: what MQTT.js gives is a view of a buffer of its own.
    return new Uint8Array(this.payload.subarray(start, stop));
  }

  /** The head of an array: how many elements follow. */
  array(): number {
    return this.#number("*");
  }

  /** There must be nothing more. */
  finish(): void {
    if (this.#at !== this.payload.length) throw new Malformed();
  }

  #number(kind: string): number {
    const end = this.payload.indexOf(CR, this.#at);
    const line = text(this.payload.subarray(this.#at, Math.max(end, this.#at)));
    // A payload has at most 268,435,455 bytes: a longer number is none of a length.
    if (this.payload[end + 1] !== LF || line[0] !== kind || !/^.[0-9]{1,9}$/.test(line)) throw new Malformed();
    this.#at = end + 2;
    return Number(line.slice(1));
  }
}
