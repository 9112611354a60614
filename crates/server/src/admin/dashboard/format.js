// Numbers, sizes, times and bytes as people read them.

const LARGE = ["", "k", "M", "G", "T"];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/**
 * A figure with three digits that count.
 * @param {number | undefined | null} value
 */
export function number(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (Math.abs(value) < 10_000) return digits(value);
  let step = 0;
  while (Math.abs(value) >= 1_000 && step < LARGE.length - 1) [value, step] = [value / 1_000, step + 1];
  return `${digits(value)} ${LARGE[step]}`;
}

/** @param {number} value */
function digits(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return value.toFixed(size < 1 ? 2 : size < 100 ? 1 : 0);
}

/** @param {number | undefined | null} value */
export function bytes(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  let step = 0;
  while (Math.abs(value) >= 1_024 && step < SIZES.length - 1) [value, step] = [value / 1_024, step + 1];
  return `${step === 0 ? value : value.toFixed(value < 100 ? 1 : 0)} ${SIZES[step]}`;
}

/**
 * A time of seconds.
 * @param {number | undefined | null} value
 */
export function seconds(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value === Infinity) return "> 10 s";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 120) return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/**
 * A moment, in the time zone of who looks.
 * @param {string | number | undefined | null} value
 */
export function moment(value) {
  if (value === undefined || value === null || value === "") return "–";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(date)}`;
}

/** @param {Date} date */
export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/**
 * What bytes are as text, or null if they are no UTF-8.
 * @param {Uint8Array} value
 */
export function text(value) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
  } catch {
    return null;
  }
}

/**
 * As JSON that is easy to read, or null.
 * @param {Uint8Array} value
 */
export function json(value) {
  const said = text(value);
  if (said === null) return null;
  try {
    return JSON.stringify(JSON.parse(said), null, 2);
  } catch {
    return null;
  }
}

/**
 * As a table of hexadecimal digits, sixteen bytes a line.
 * @param {Uint8Array} value
 */
export function hex(value) {
  const lines = [];
  for (let at = 0; at < Math.min(value.length, HEX_SHOWN_MAX); at += 16) {
    const part = [...value.subarray(at, at + 16)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const shown = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${shown}`);
  }
  if (value.length > HEX_SHOWN_MAX) lines.push(`… and ${value.length - HEX_SHOWN_MAX} more bytes`);
  return lines.join("\n");
}

const HEX_SHOWN_MAX = 64 * 1024;

/**
 * Hexadecimal digits with nothing around them, as they are typed in.
 * @param {Uint8Array} value
 */
export function digitsOf(value) {
  return [...value].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/**
 * Bytes of hexadecimal digits; null if they are none.
 * @param {string} typed
 */
export function bytesOf(typed) {
  const digits = typed.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || !/^[0-9a-f]*$/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {string} encoded */
export function fromBase64(encoded) {
  return Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
}
