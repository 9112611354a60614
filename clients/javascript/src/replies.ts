/** What the state store answers, and what that means for each command. */

import { text } from "./bytes.js";
import type { Message } from "./connection.js";
import { MalformedReply, RefusedByStore, WrongStatus } from "./errors.js";
import { Hlc } from "./hlc.js";
import { Malformed, Reader } from "./resp.js";

/** A reply that is no error. */
export interface Reply {
  readonly payload: Uint8Array;
  readonly version: Hlc | undefined;
}

/** Whether a key was set: with the version of this write, or of the value that it has, if the server said. */
export type SetOutcome =
  | { readonly stored: true; readonly version: Hlc }
  | { readonly stored: false; readonly version: Hlc | undefined };

/** A value with its version. */
export interface Entry {
  readonly value: Uint8Array;
  readonly version: Hlc;
}

/** Whether a key was deleted. Versions are those of the value that it had or has, if the server said. */
export type Deletion =
  | { readonly outcome: "deleted"; readonly version: Hlc | undefined }
  | { readonly outcome: "missing" }
  /** It has another value than the one given to `vdel`; nothing changed. */
  | { readonly outcome: "other-value"; readonly version: Hlc | undefined };

/** What happened to a watched key, with the version of the change. */
export type Change =
  | { readonly type: "set"; readonly value: Uint8Array; readonly version: Hlc | undefined }
  /** It was deleted, or it expired. */
  | { readonly type: "deleted"; readonly version: Hlc | undefined };

/** @throws StoreError if the store refused, or if the message is no reply. */
export function readReply(message: Message): Reply {
  const status = message.userProperties["__stat"];
  if (status !== undefined && status !== "200") throw new WrongStatus(status);
  // The published text draws a colon there in one place, and no CR LF in another.
  const refusal = /^-ERR:? ?(.*?)(\r\n)?$/s.exec(text(message.payload.subarray(0, 1024)));
  if (refusal) throw new RefusedByStore(refusal[1] ?? "");
  return { payload: message.payload, version: versionOf(message) };
}

export function setOutcome(reply: Reply): SetOutcome {
  const line = lineOf(reply);
  if (line === "+OK\r\n" && reply.version) return { stored: true, version: reply.version };
  if (isNegative(line)) return { stored: false, version: reply.version };
  throw new MalformedReply();
}

export function entry(reply: Reply): Entry | undefined {
  if (lineOf(reply) === "$-1\r\n") return undefined;
  const value = read(reply.payload, (reader) => reader.bulk());
  if (!reply.version) throw new MalformedReply();
  return { value, version: reply.version };
}

export function deletion(reply: Reply): Deletion {
  const line = lineOf(reply);
  if (line === ":1\r\n") return { outcome: "deleted", version: reply.version };
  if (line === ":0\r\n") return { outcome: "missing" };
  if (isNegative(line)) return { outcome: "other-value", version: reply.version };
  throw new MalformedReply();
}

/** Keys, and the token of the next page if there is one. */
export function page(reply: Reply): { keys: Uint8Array[]; token: Uint8Array | undefined } {
  return read(reply.payload, (reader) => {
    const parts = reader.array();
    const keys = array(reader);
    return { keys, token: parts === 2 ? reader.bulk() : undefined };
  });
}

export function registered(reply: Reply): void {
  if (lineOf(reply) !== "+OK\r\n") throw new MalformedReply();
}

/** What a notification says, in either dialect. */
export function change(message: Message): Change {
  const words = read(message.payload, array);
  const [notify, what, valueWord, value] = words;
  const [first, second, third] = [notify, what, valueWord].map((word) => word && text(word));
  const version = versionOf(message);
  if (first === "NOTIFY" && second === "SET" && third === "VALUE" && value && words.length === 4) {
    return { type: "set", value, version };
  }
  if (first === "NOTIFY" && (second === "DELETE" || second === "DEL") && words.length === 2) {
    return { type: "deleted", version };
  }
  throw new MalformedReply();
}

/** `__ts` of a reply or a notification. */
function versionOf(message: Message): Hlc | undefined {
  const version = message.userProperties["__ts"];
  try {
    return version === undefined ? undefined : Hlc.parse(version);
  } catch {
    throw new MalformedReply();
  }
}

/** A payload that is one short line; any other is none that is compared with. */
function lineOf(reply: Reply): string {
  return reply.payload.length <= 8 ? text(reply.payload) : "";
}

/** A condition that is not met: in the form of the SDKs, or in that of the published text. */
function isNegative(line: string): boolean {
  return line === ":-1\r\n" || line === "-1\r\n";
}

function array(reader: Reader): Uint8Array[] {
  const words: Uint8Array[] = [];
  for (let left = reader.array(); left > 0; left -= 1) words.push(reader.bulk());
  return words;
}

function read<T>(payload: Uint8Array, of: (reader: Reader) => T): T {
  try {
    const reader = new Reader(payload);
    const result = of(reader);
    reader.finish();
    return result;
  } catch (error) {
    throw error instanceof Malformed ? new MalformedReply() : error;
  }
}
