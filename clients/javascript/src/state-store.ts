/** The state store of the server. */

import { bytes, type Bytes } from "./bytes.js";
import type { Hlc } from "./hlc.js";
import { deletion, entry, page, setOutcome, type Deletion, type Entry, type SetOutcome } from "./replies.js";
import type { Session } from "./session.js";
import type { Watch } from "./watch.js";

/** The store reads them as numbers that every client can hold. */
const EXPIRES_IN_MAX_MS = 2 ** 53;

/** How to set a key. One condition at most. */
export interface SetOptions {
  /** Only if there is no such key (NX). */
  readonly ifAbsent?: boolean;
  /** Only if there is no such key, or it has the value being set (NEX): to renew a lease. */
  readonly ifAbsentOrEqual?: boolean;
  /** Only if there is no such key, or it has this value (NEX value): compare and set. */
  readonly ifAbsentOr?: Bytes;
  /**
   * The key is deleted after so many milliseconds, more than 0; a fraction is cut off, and 1 is the least (PX). Without it an earlier
   * expiry is cleared.
   */
  readonly expiresInMs?: number;
  /** Protects the key: from now on it takes no write without a token, or with an older one. */
  readonly fencing?: Hlc;
  /** How long the request may take, in milliseconds; by default that of the client. */
  readonly timeoutMs?: number;
}

/**
 * The state store of the server that a client is connected to.
 *
 * Keys are one byte or more, values any bytes; a string stands for its UTF-8. Every write has a *version*, which orders the writes of
 * a key. Every method throws `RefusedByStore` if the store says no and `OperationError` if there is no answer; after `TimedOut` and
 * `Ended` it is unknown whether a write was executed.
 */
export class StateStore {
  readonly #session: Session;

  /** @internal */
  constructor(session: Session) {
    this.#session = session;
  }

  /** Sets a key. @throws RangeError for options that cannot go together; nothing was sent then. */
  async set(key: Bytes, value: Bytes, options: SetOptions = {}): Promise<SetOutcome> {
    const words = ["SET", key, value, ...condition(options), ...expiry(options)];
    return setOutcome(await this.#session.request(words, { fencing: options.fencing, timeoutMs: options.timeoutMs }));
  }

  /** The value of a key with its version, or undefined if there is no such key. */
  async get(key: Bytes): Promise<Entry | undefined> {
    return entry(await this.#session.request(["GET", key]));
  }

  /** Deletes a key (DEL). A protected one needs a fencing token that is not older. */
  async delete(key: Bytes, options: { readonly fencing?: Hlc } = {}): Promise<Deletion> {
    return deletion(await this.#session.request(["DEL", key], { fencing: options.fencing }));
  }

  /** Deletes a key if it has this value (VDEL). */
  async vdel(key: Bytes, value: Bytes, options: { readonly fencing?: Hlc } = {}): Promise<Deletion> {
    return deletion(await this.#session.request(["VDEL", key, value], { fencing: options.fencing }));
  }

  /**
   * Lists the keys that match a glob: `*` any sequence, `?` one character, `[ab]`, `[a-z]`, `[!a]`. A key that exists during the whole
   * scan is listed once.
   */
  async *scan(pattern: Bytes): AsyncGenerator<Uint8Array, void, void> {
    let next: readonly Bytes[] | undefined = ["SCAN", pattern];
    while (next) {
      const { keys, token } = page(await this.#session.request(next));
      yield* keys;
      next = token && ["SCAN", pattern, token];
    }
  }

  /** Watches a key: every change from here on comes out of the `Watch`. */
  async watch(key: Bytes): Promise<Watch> {
    return this.#session.watched.watch(bytes(key), this.#session.options.timeoutMs);
  }

  /** How long a request may take, in milliseconds: that of the client. */
  get timeoutMs(): number {
    return this.#session.options.timeoutMs;
  }

  /** A name that no other holder of a lock has, also across restarts. */
  uniqueHolder(): string {
    const { clientId, seed } = this.#session.options;
    return `${clientId}/${seed}/${this.#session.nextNumber()}`;
  }
}

function condition({ ifAbsent, ifAbsentOrEqual, ifAbsentOr }: SetOptions): Bytes[] {
  const conditions: Bytes[][] = [];
  if (ifAbsent) conditions.push(["NX"]);
  if (ifAbsentOrEqual) conditions.push(["NEX"]);
  if (ifAbsentOr !== undefined) conditions.push(["NEX", ifAbsentOr]);
  if (conditions.length > 1) throw new RangeError("give one of ifAbsent, ifAbsentOrEqual and ifAbsentOr");
  return conditions[0] ?? [];
}

function expiry({ expiresInMs }: SetOptions): Bytes[] {
  if (expiresInMs === undefined) return [];
  if (!(expiresInMs > 0)) throw new RangeError(`a key cannot expire in ${expiresInMs} ms: give more than 0`);
  const whole = Math.min(Math.max(1, Math.floor(expiresInMs)), EXPIRES_IN_MAX_MS);
  return ["PX", BigInt(whole).toString()];
}
