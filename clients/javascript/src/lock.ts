/** A lock that waits for its turn and renews itself. */

import { bytes, type Bytes } from "./bytes.js";
import { Contender, type Action, type Answer, type Event, type Lost } from "./contender.js";
import { isPassing, NotInTime, StoreError } from "./errors.js";
import { Hlc } from "./hlc.js";
import type { StateStore } from "./state-store.js";
import { after, deferred, now } from "./timer.js";
import type { Watch } from "./watch.js";

/** Lower than any: what carries it is refused. */
const NO_TOKEN = new Hlc(0, 0, "lost");

/** How to take a lock. Times are in milliseconds. */
export interface LockOptions {
  /** The lock is held for so long at a time, more than 0, and renewed every third of it. */
  readonly leaseMs: number;
  /**
   * The value of the lock's key. Two that use the same have the lock together; by default it is one that nobody else has.
   */
  readonly holder?: Bytes;
  /** Waits no longer than this; 0: one attempt. By default it waits for ever. */
  readonly waitMs?: number;
  /** Gives up when it is aborted; `acquire` throws its reason then. */
  readonly signal?: AbortSignal;
}

/**
 * A lock that is held, and renewed in the background until it is released.
 *
 * Holding it is a belief: a process that sleeps for longer than the lease wakes up believing. What has to be safe carries the `token`:
 * `store.set(key, value, { fencing: lock.token })`. A lock that nobody releases is renewed until its client ends.
 */
export class Lock {
  private constructor(
    private readonly keeper: Keeper,
    /** The key of the lock. */
    readonly key: Uint8Array,
    /** What the key is set to. */
    readonly holder: Uint8Array,
  ) {}

  /**
   * Waits until the lock is free, and takes it.
   *
   * @throws NotInTime if another had it all the time, StoreError if the store refused, or if the one attempt had no answer.
   */
  static async acquire(store: StateStore, key: Bytes, options: LockOptions): Promise<Lock> {
    const { leaseMs, waitMs, signal } = options;
    if (!(leaseMs > 0)) throw new RangeError(`a lock cannot be held for ${leaseMs} ms at a time: give more than 0`);
    signal?.throwIfAborted();
    const [keyBytes, holder] = [bytes(key), bytes(options.holder ?? store.uniqueHolder())];
    const keeper = new Keeper(store, keyBytes, holder, leaseMs, waitMs === 0);
    const abort = (): void => keeper.decided.reject(signal?.reason);
    signal?.addEventListener("abort", abort);
    const cancel = waitMs ? after(waitMs, () => keeper.decided.reject(new NotInTime())) : () => {};
    try {
      await keeper.decided.promise;
      return new Lock(keeper, keyBytes, holder);
    } catch (error) {
      keeper.release();
      throw error;
    } finally {
      cancel();
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * The fencing token of the newest renewal: greater than that of every earlier holder. Once the lock is lost it is one that every
   * protected key refuses.
   */
  get token(): Hlc {
    return this.keeper.held?.token ?? NO_TOKEN;
  }

  /** True while the lock is held, as far as this side can know. */
  get isHeld(): boolean {
    return this.keeper.held !== undefined && now() < this.keeper.held.until;
  }

  /** Resolves when the lock is lost or released. */
  lost(): Promise<Lost> {
    return this.keeper.over.promise;
  }

  /** Gives the lock back. @throws StoreError if that failed: others wait until the lease is over then. */
  release(): Promise<void> {
    this.keeper.release();
    return this.keeper.released.promise;
  }
}

/** Runs a `Contender`: sends its requests and tells it the time. */
class Keeper {
  readonly decided = deferred<void>();
  readonly over = deferred<Lost>();
  readonly released = deferred<void>();
  held: { readonly token: Hlc; readonly until: number } | undefined;
  readonly #contender: Contender;
  /** Names the request under way; what an earlier one says does not count any more. */
  #request = 0;
  #watch: Watch | undefined;
  #cancelTimer = (): void => {};

  constructor(
    private readonly store: StateStore,
    private readonly key: Uint8Array,
    private readonly holder: Uint8Array,
    private readonly leaseMs: number,
    private readonly isSingleAttempt: boolean,
  ) {
    this.#contender = new Contender(leaseMs);
    this.#step({ type: "start" });
  }

  release(): void {
    this.held = undefined;
    this.over.resolve("released");
    this.#step({ type: "release" });
  }

  #step(event: Event): void {
    for (const action of this.#contender.step(now(), event)) this.#execute(action);
    this.#cancelTimer();
    const deadline = this.#contender.deadline();
    if (deadline !== undefined) this.#cancelTimer = after(deadline - now(), () => this.#step({ type: "timeout" }));
  }

  #execute(action: Action): void {
    switch (action.type) {
      case "set":
        return this.#ask(Math.min(action.timeoutMs, this.store.timeoutMs));
      case "watch":
        return this.isSingleAttempt ? this.#fail(new NotInTime()) : this.#beginWatch();
      case "unwatch":
        return this.#unwatch();
      case "delete":
        return this.#delete();
      case "held":
        this.held = action;
        return this.decided.resolve();
      case "lost":
        this.held = undefined;
        return this.over.resolve(action.how);
      case "end":
        this.#unwatch();
        return this.released.resolve();
    }
  }

  #ask(timeoutMs: number): void {
    const set = this.store.set(this.key, this.holder, { ifAbsentOrEqual: true, expiresInMs: this.leaseMs, timeoutMs });
    this.#begin(
      set.then((outcome): Answer => (outcome.stored ? outcome.version : "refused")),
      (answer) => this.#step({ type: "answered", answer }),
      (error) => {
        const isOnlyAttempt = this.isSingleAttempt && this.held === undefined;
        if (isOnlyAttempt) this.#fail(error);
        else this.#step({ type: "answered", answer: "unknown" });
      },
    );
  }

  #beginWatch(): void {
    const watching = this.store.watch(this.key);
    const request = this.#begin(
      watching,
      (watch) => {
        this.#watch = watch;
        void this.#follow(watch);
        this.#step({ type: "watching" });
      },
      // Without a watch the contender looks again from time to time.
      () => this.#step({ type: "watching" }),
    );
    // The caller gave up meanwhile.
    watching.then((watch) => request !== this.#request && watch !== this.#watch && watch.close()).catch(() => {});
  }

  #delete(): void {
    const released = (): void => this.#step({ type: "deleted" });
    this.#request += 1;
    this.store.vdel(this.key, this.holder).then(released, (error: unknown) => {
      this.released.reject(error);
      released();
    });
  }

  /** Begins a request; what the one before says does not count any more. `passing`: it may go well in a moment. */
  #begin<T>(promise: Promise<T>, done: (result: T) => void, passing: (error: unknown) => void): number {
    this.#request += 1;
    const request = this.#request;
    const ifCurrent = <R>(call: (result: R) => void) => (result: R) => {
      if (request === this.#request) call(result);
    };
    promise.then(
      ifCurrent(done),
      ifCurrent((error: unknown) => (isPassing(error) ? passing(error) : this.#fail(error))),
    );
    return request;
  }

  async #follow(watch: Watch): Promise<void> {
    try {
      for await (const event of watch) if (event.type !== "set") this.#step({ type: "freed" });
    } catch (error) {
      // The contender looks again from time to time.
      if (!(error instanceof StoreError)) throw error;
    }
  }

  #unwatch(): void {
    this.#watch?.close();
    this.#watch = undefined;
  }

  /** The lock cannot be had, or kept: the client has ended, or the store says no for good. */
  #fail(error: unknown): void {
    this.held = undefined;
    this.decided.reject(error);
    this.over.resolve("expired");
  }
}

export type { Lost };
