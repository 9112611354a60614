/** Keys and values are bytes; a string stands for its UTF-8. */

export type Bytes = Uint8Array | string;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The bytes of a key or a value. */
export function bytes(value: Bytes): Uint8Array {
  return typeof value === "string" ? encoder.encode(value) : value;
}

/** The text of a key or a value; what is not UTF-8 becomes U+FFFD. */
export function text(value: Uint8Array): string {
  return decoder.decode(value);
}

/** RFC 4648 base 16, upper case. */
export function hex(value: Uint8Array): string {
  return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("").toUpperCase();
}
