/** The clocks of this package: one that never goes back, one of the calendar, and what wakes it up. */

/** A longer timer would end at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Milliseconds of a clock that never goes back. */
export function now(): number {
  return performance.now();
}

/** Milliseconds since the Unix epoch. */
export function wallNow(): number {
  return Date.now();
}

/** Calls a function after `ms` milliseconds, 24 days at most; returns what prevents that. */
export function after(ms: number, call: () => void): () => void {
  // Rounded up: a deadline that is looked at must have passed.
  const timer = setTimeout(call, Math.min(Math.ceil(Math.max(ms, 0)), TIMER_MAX_MS));
  return () => clearTimeout(timer);
}

/** Like Promise.withResolvers, which not every runtime has. What nobody waits for may be rejected. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((resolvePromise, rejectPromise) => {
    [resolve, reject] = [resolvePromise, rejectPromise];
  });
  promise.catch(() => {});
  return { promise, resolve, reject };
}
