/** The changes of a watched key. */

import { Ended, LossKind, type StoreError } from "./errors.js";
import type { Change } from "./replies.js";
import { deferred, type Deferred } from "./timer.js";

/**
 * What happened to a watched key. A `gap`: changes were not seen, because the connection was lost or nobody read for too long. Read
 * the key; what comes after a gap is complete again.
 */
export type WatchEvent = Change | { readonly type: "gap" };

/**
 * The changes of one key, in the order of their versions, until it is closed:
 *
 * ```ts
 * for await (const event of await store.watch("setpoint")) {
 *   if (event.type === "set") show(event.value);
 *   else show((await store.get("setpoint"))?.value);
 * }
 * ```
 *
 * Leaving the loop closes the watch. The iteration ends when the watch is closed or the client disconnects, and throws `StoreError`
 * if the watch ended otherwise. `watchCapacity` changes wait for a reader (`Options`); when one more comes, they give way to a gap.
 */
export class Watch implements AsyncIterableIterator<WatchEvent> {
  readonly #capacity: number;
  readonly #onClose: (watch: Watch) => void;
  readonly #events: WatchEvent[] = [];
  readonly #readers: Deferred<IteratorResult<WatchEvent>>[] = [];
  #isOver = false;
  #error: StoreError | undefined;

  /** @internal */
  constructor(capacity: number, onClose: (watch: Watch) => void) {
    this.#capacity = capacity;
    this.#onClose = onClose;
  }

  /** Ends the watch. */
  close(): void {
    if (this.#isOver) return;
    this.#onClose(this);
    this.end(undefined);
  }

  next(): Promise<IteratorResult<WatchEvent>> {
    const reader = deferred<IteratorResult<WatchEvent>>();
    this.#readers.push(reader);
    this.#serve();
    return reader.promise;
  }

  async return(): Promise<IteratorResult<WatchEvent>> {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @internal */
  push(event: WatchEvent): void {
    if (this.#events.length >= this.#capacity) this.#events.splice(0, Infinity, { type: "gap" });
    const isSecondGap = event.type === "gap" && this.#events.at(-1)?.type === "gap";
    if (!isSecondGap) this.#events.push(event);
    this.#serve();
  }

  /** @internal */
  end(error: StoreError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const isAskedFor = error instanceof Ended && error.loss.kind === LossKind.REQUESTED;
    this.#error = isAskedFor ? undefined : error;
    this.#serve();
  }

  #serve(): void {
    while (this.#readers.length > 0) {
      const event = this.#events.shift();
      if (event === undefined && !this.#isOver) return;
      const reader = this.#readers.shift();
      if (event !== undefined) reader?.resolve({ done: false, value: event });
      else if (this.#error) reader?.reject(this.#error);
      else reader?.resolve({ done: true, value: undefined });
    }
  }
}
