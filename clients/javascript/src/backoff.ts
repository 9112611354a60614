/** How long to wait before the next attempt to connect. */

/** Limits of the wait between attempts to connect, in milliseconds. */
export interface BackoffLimits {
  /** The first wait; doubled with each attempt that fails. */
  readonly waitMinMs: number;
  /** The longest wait. */
  readonly waitMaxMs: number;
  /** A connection that lasted this long makes the next wait the first again. */
  readonly stableAfterMs: number;
}

export const BACKOFF_DEFAULT: BackoffLimits = { waitMinMs: 100, waitMaxMs: 30_000, stableAfterMs: 10_000 };

/**
 * Exponential backoff with jitter: a wait is drawn from the upper half of its interval, so that clients that lost the same server
 * do not come back at once.
 */
export class Backoff {
  #attempts = 0;
  #connectedAt: number | undefined;

  /** `random` draws from 0 to 1. */
  constructor(
    private readonly limits: BackoffLimits,
    private readonly random: () => number,
  ) {}

  /** There is a connection since `now`, in milliseconds of a clock that never goes back. */
  connected(now: number): void {
    this.#connectedAt = now;
  }

  /** The wait before the next attempt, in milliseconds. */
  nextWait(now: number): number {
    if (this.#connectedAt !== undefined && now - this.#connectedAt >= this.limits.stableAfterMs) this.#attempts = 0;
    this.#connectedAt = undefined;
    const interval = Math.min(this.limits.waitMinMs * 2 ** Math.min(this.#attempts, 20), this.limits.waitMaxMs);
    this.#attempts += 1;
    return interval * (0.5 + this.random() / 2);
  }
}
