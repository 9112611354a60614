/**
 * Getting, keeping and losing a lock: a key that is set to the holder's name with a lease, and renewed.
 *
 * The rule: a contender believes that it holds the lock for less time than the store does. It counts the lease from before the
 * request was sent and stops believing a twentieth of it early, so that clocks that do not run alike do not make two holders. What
 * must not happen even so, when a process sleeps, is for the fencing token to prevent.
 *
 * No I/O, no clock: `step(now, event)` and `deadline()`, with times in milliseconds of a clock that never goes back.
 */

import { Hlc } from "./hlc.js";

/**
 * How a SET of the lock's key ended: with the fencing token if it was stored; `refused`: somebody else has it; `unknown`: no answer,
 * or the store cannot answer at the moment; it may have been stored.
 */
export type Answer = Hlc | "refused" | "unknown";

/** What happens to a contender. */
export type Event =
  | { readonly type: "start" }
  /** The answer to `set`. */
  | { readonly type: "answered"; readonly answer: Answer }
  /** The key is watched, as `watch` asked. */
  | { readonly type: "watching" }
  /** The key was deleted, or it could have been without notice. */
  | { readonly type: "freed" }
  /** The caller does not want the lock any more. */
  | { readonly type: "release" }
  /** `delete` was answered, whatever it was. */
  | { readonly type: "deleted" }
  /** The deadline has come. */
  | { readonly type: "timeout" };

/** How a lock was lost. */
export type Lost =
  /** The lease could not be renewed in time. */
  | "expired"
  /** Somebody else holds it. */
  | "taken-over"
  /** It was released. */
  | "released";

/**
 * What the driver of a contender has to do. A new request may begin before the last one has ended, whose answer is then not to be
 * reported.
 */
export type Action =
  /** Set the key to the holder's name if it is missing or ours, with the lease. After `timeoutMs` the answer is `unknown`. */
  | { readonly type: "set"; readonly timeoutMs: number }
  | { readonly type: "watch" }
  | { readonly type: "unwatch" }
  /** Delete the key if it is ours. */
  | { readonly type: "delete" }
  /** The lock is held, or was renewed. */
  | { readonly type: "held"; readonly token: Hlc; readonly until: number }
  | { readonly type: "lost"; readonly how: Lost }
  /** Nothing will happen any more. */
  | { readonly type: "end" };

/**
 * ```text
 * idle -> asking -> held <-> renewing -> ended
 *         |    ^
 *         v    |
 *   registering -> asking ... waiting -> asking
 * any -> releasing -> ended
 * ```
 */
type State =
  | { readonly type: "idle" | "registering" | "releasing" | "ended" }
  /** SET is under way; `freed`: what it may be refused for has ended meanwhile. */
  | { readonly type: "asking"; readonly sentAt: number; readonly freed: boolean }
  /** Somebody else has it. */
  | { readonly type: "waiting"; readonly until: number }
  /** Ours until `until`, renewed at `renewAt`. */
  | { readonly type: "held"; readonly until: number; readonly renewAt: number }
  /** Ours until `until`; SET is under way. */
  | { readonly type: "renewing"; readonly until: number; readonly sentAt: number };

/** One who wants, holds or has held a lock. */
export class Contender {
  #state: State = { type: "idle" };
  #isWatching = false;

  constructor(private readonly leaseMs: number) {}

  /** Takes an event in; returns what has to be done, in this order. */
  step(now: number, event: Event): Action[] {
    switch (event.type) {
      case "start":
        return this.#state.type === "idle" ? this.#ask(now) : [];
      case "answered":
        return this.#answered(now, event.answer);
      case "watching":
        // What was deleted before the watch began was not reported.
        return this.#state.type === "registering" ? this.#ask(now) : [];
      case "freed":
        return this.#freed(now);
      case "release":
        return this.#release();
      case "deleted":
        return this.#state.type === "releasing" ? this.#end() : [];
      case "timeout":
        return this.#timedOut(now);
    }
  }

  /** When the driver must next call `step` with `timeout`. */
  deadline(): number | undefined {
    const state = this.#state;
    if (state.type === "waiting" || state.type === "renewing") return state.until;
    return state.type === "held" ? Math.min(state.until, state.renewAt) : undefined;
  }

  #ask(now: number): Action[] {
    this.#state = { type: "asking", sentAt: now, freed: false };
    return [{ type: "set", timeoutMs: this.leaseMs }];
  }

  #answered(now: number, answer: Answer): Action[] {
    if (this.#state.type === "asking") return this.#asked(now, this.#state.sentAt, this.#state.freed, answer);
    if (this.#state.type !== "renewing") return [];
    const { until, sentAt } = this.#state;
    if (answer instanceof Hlc) return [this.#hold(sentAt, answer)];
    if (answer === "refused") return [{ type: "lost", how: "taken-over" }, ...this.#end()];
    this.#state = { type: "held", until, renewAt: now + this.#pause() };
    return [];
  }

  #asked(now: number, sentAt: number, freed: boolean, answer: Answer): Action[] {
    if (answer instanceof Hlc) {
      // An answer so late that the lease is over by now is worth nothing.
      if (this.#believedUntil(sentAt) <= now) return this.#ask(now);
      return [...this.#unwatch(), this.#hold(sentAt, answer)];
    }
    if (answer === "unknown") {
      this.#state = { type: "waiting", until: now + this.#pause() };
      return [];
    }
    if (!this.#isWatching) {
      this.#isWatching = true;
      this.#state = { type: "registering" };
      return [{ type: "watch" }];
    }
    if (freed) return this.#ask(now);
    // A notification could be lost with a server: look again after what the holder may have left.
    this.#state = { type: "waiting", until: now + this.leaseMs };
    return [];
  }

  #freed(now: number): Action[] {
    if (this.#state.type === "asking") this.#state = { ...this.#state, freed: true };
    return this.#state.type === "waiting" ? this.#ask(now) : [];
  }

  #release(): Action[] {
    if (this.#state.type === "releasing" || this.#state.type === "ended") return [];
    if (this.#state.type === "idle") return this.#end();
    this.#state = { type: "releasing" };
    return [...this.#unwatch(), { type: "delete" }];
  }

  #timedOut(now: number): Action[] {
    const [state, deadline] = [this.#state, this.deadline()];
    if (deadline === undefined || now < deadline) return [];
    if (state.type === "waiting") return this.#ask(now);
    if (state.type !== "held" && state.type !== "renewing") return [];
    if (state.until <= now) {
      // A renewal may still arrive: it must not hold the lock for nobody.
      this.#state = { type: "releasing" };
      return [{ type: "lost", how: "expired" }, { type: "delete" }];
    }
    this.#state = { type: "renewing", until: state.until, sentAt: now };
    return [{ type: "set", timeoutMs: state.until - now }];
  }

  #hold(sentAt: number, token: Hlc): Action {
    const until = this.#believedUntil(sentAt);
    this.#state = { type: "held", until, renewAt: sentAt + this.leaseMs / 3 };
    return { type: "held", token, until };
  }

  #unwatch(): Action[] {
    const wasWatching = this.#isWatching;
    this.#isWatching = false;
    return wasWatching ? [{ type: "unwatch" }] : [];
  }

  #end(): Action[] {
    this.#state = { type: "ended" };
    return [{ type: "end" }];
  }

  #believedUntil(sentAt: number): number {
    return sentAt + this.leaseMs - this.leaseMs / 20;
  }

  /** Before another attempt at a store that gave no answer. */
  #pause(): number {
    return Math.min(this.leaseMs / 10, 1000);
  }
}
