/** One of many: who holds a lock is the leader, and its name is the key's value. */

import type { Bytes } from "./bytes.js";
import type { Hlc } from "./hlc.js";
import { Lock, type LockOptions, type Lost } from "./lock.js";
import type { StateStore } from "./state-store.js";
import type { Watch } from "./watch.js";

/**
 * An election that candidates take part in and everybody can watch.
 *
 * ```ts
 * const election = new LeaderElection(store, "plant/leader", { leaseMs: 10_000 });
 * for (;;) {
 *   const leadership = await election.campaign("controller-1");
 *   console.log(`leading with token ${leadership.token}`);
 *   await leadership.lost();
 * }
 * ```
 */
export class LeaderElection {
  readonly #leaseMs: number;

  /** The election of `key`, whose leader shows itself every third of `leaseMs` milliseconds. */
  constructor(
    private readonly store: StateStore,
    private readonly key: Bytes,
    options: Pick<LockOptions, "leaseMs">,
  ) {
    this.#leaseMs = options.leaseMs;
  }

  /**
   * Waits until `candidate` is the leader. The name must be the candidate's own.
   *
   * @throws NotInTime and StoreError, as `Lock.acquire`.
   */
  async campaign(candidate: Bytes, options: Pick<LockOptions, "waitMs" | "signal"> = {}): Promise<Leadership> {
    const lockOptions = { ...options, leaseMs: this.#leaseMs, holder: candidate };
    return new Leadership(await Lock.acquire(this.store, this.key, lockOptions));
  }

  /** Who leads; undefined: nobody does. @throws StoreError */
  async leader(): Promise<Uint8Array | undefined> {
    return (await this.store.get(this.key))?.value;
  }

  /** Who leads, and every change of it. @throws StoreError */
  async watch(): Promise<LeaderWatch> {
    return new LeaderWatch(this, await this.store.watch(this.key));
  }
}

/** Being the leader, until it is lost or resigned from. */
export class Leadership {
  /** @internal */
  constructor(private readonly lock: Lock) {}

  /** The fencing token: greater than that of every earlier leader. */
  get token(): Hlc {
    return this.lock.token;
  }

  /** True while this is the leader, as far as this side can know. */
  get isHeld(): boolean {
    return this.lock.isHeld;
  }

  /** Resolves when the leadership is lost or resigned from. */
  lost(): Promise<Lost> {
    return this.lock.lost();
  }

  /** Lets another lead. @throws StoreError if that failed: others wait until the lease is over then. */
  resign(): Promise<void> {
    return this.lock.release();
  }
}

/**
 * First who leads at the moment, then whoever leads next; undefined: nobody does. A leader that stays is reported at each renewal. It
 * ends as a `Watch` does.
 */
export class LeaderWatch implements AsyncIterableIterator<Uint8Array | undefined> {
  #isKnown = false;

  /** @internal */
  constructor(
    private readonly election: LeaderElection,
    private readonly watch: Watch,
  ) {}

  /** Ends the watch. */
  close(): void {
    this.watch.close();
  }

  async next(): Promise<IteratorResult<Uint8Array | undefined>> {
    if (!this.#isKnown) {
      this.#isKnown = true;
      return { done: false, value: await this.election.leader() };
    }
    const { done, value: event } = await this.watch.next();
    if (done) return { done, value: undefined };
    if (event.type === "gap") return { done: false, value: await this.election.leader() };
    return { done: false, value: event.type === "set" ? event.value : undefined };
  }

  async return(): Promise<IteratorResult<Uint8Array | undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
