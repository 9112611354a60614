/** A key lease: a right that ends by itself. */

import type { Bytes } from "./bytes.js";
import type { Hlc } from "./hlc.js";
import type { StateStore } from "./state-store.js";
import { now } from "./timer.js";

interface Taken {
  readonly token: Hlc;
  readonly until: number;
}

/**
 * A key that carries its holder's name until the lease is over. Renewed and released by hand; see `Lock` for one that waits and
 * renews itself.
 */
export class Lease {
  #taken: Taken;

  private constructor(
    private readonly store: StateStore,
    private readonly key: Bytes,
    private readonly holder: Bytes,
    private readonly durationMs: number,
    taken: Taken,
  ) {
    this.#taken = taken;
  }

  /**
   * Takes the lease of `key` for `holder`, or nothing if another has it. Two that use the same `holder` have the same lease.
   *
   * @throws StoreError
   */
  static async acquire(store: StateStore, key: Bytes, holder: Bytes, durationMs: number): Promise<Lease | undefined> {
    const taken = await take(store, key, holder, durationMs);
    return taken && new Lease(store, key, holder, durationMs, taken);
  }

  /** Starts the time of the lease anew. False if another has it by now: then it is over. @throws StoreError */
  async renew(): Promise<boolean> {
    const taken = await take(this.store, this.key, this.holder, this.durationMs);
    this.#taken = taken ?? { token: this.#taken.token, until: now() };
    return taken !== undefined;
  }

  /** Ends the lease. False if it was over already. @throws StoreError */
  async release(): Promise<boolean> {
    this.#taken = { token: this.#taken.token, until: now() };
    return (await this.store.vdel(this.key, this.holder)).outcome === "deleted";
  }

  /** The fencing token: greater than that of every earlier holder. */
  get token(): Hlc {
    return this.#taken.token;
  }

  /** How many milliseconds the lease lasts unless it is renewed, counted from before it was asked for. */
  get remainingMs(): number {
    return Math.max(0, this.#taken.until - now());
  }
}

async function take(store: StateStore, key: Bytes, holder: Bytes, durationMs: number): Promise<Taken | undefined> {
  const until = now() + durationMs;
  const outcome = await store.set(key, holder, { ifAbsentOrEqual: true, expiresInMs: durationMs });
  return outcome.stored ? { token: outcome.version, until } : undefined;
}
