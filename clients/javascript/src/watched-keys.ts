/**
 * Watched keys: registered once for all watches of a key, and again on every new connection, because the store forgets
 * registrations with the connection.
 */

import { hex } from "./bytes.js";
import type { Message } from "./connection.js";
import { isPassing, QueueFull, StoreError, TimedOut } from "./errors.js";
import type { Hlc } from "./hlc.js";
import { change, registered, type Change, type Reply } from "./replies.js";
import { after, deferred, type Deferred } from "./timer.js";
import { Watch } from "./watch.js";

/** How long a registration waits for its reply before it is sent again. */
const REGISTRATION_TIMEOUT_MS = 10_000;
/** Long enough for the nodes of a cluster to choose a leader. */
const RETRY_AFTER_MS = 1000;

/** Sends a registration or its end; it fails with its connection. */
export type Register = (words: readonly (Uint8Array | string)[], timeoutMs: number) => Promise<Reply>;

class WatchedKey {
  readonly watches: Watch[] = [];
  /** Watches that wait for the first registration; the others are told of a gap by the next one. */
  readonly waiting = new Map<Watch, Deferred<void>>();
  isRegistered = false;
  /** The connection for which the key was registered last; what older registrations say does not count. */
  attempt: object | undefined;
  cancelRetry = (): void => {};
  /** Of the last change reported: one that comes again is not reported again. */
  last: Hlc | undefined;

  constructor(readonly key: Uint8Array) {}
}

/** All watches of a session. */
export class WatchedKeys {
  readonly #keys = new Map<string, WatchedKey>();
  #count = 0;
  #isConnected = false;

  constructor(
    private readonly register: Register,
    private readonly watchesMax: number,
    private readonly capacity: number,
  ) {}

  /** Resolves when changes are reported. */
  async watch(key: Uint8Array, timeoutMs: number): Promise<Watch> {
    if (this.#count >= this.watchesMax) throw new QueueFull(this.watchesMax, "watchesMax");
    const name = hex(key);
    const watched = this.#keys.get(name) ?? new WatchedKey(new Uint8Array(key));
    this.#keys.set(name, watched);
    const watch = new Watch(this.capacity, (closed) => this.#remove(watched, closed));
    watched.watches.push(watch);
    this.#count += 1;
    if (watched.isRegistered) return watch;
    const waiting = deferred<void>();
    watched.waiting.set(watch, waiting);
    if (watched.attempt === undefined) this.#begin(watched);
    const cancel = after(timeoutMs, () => waiting.reject(new TimedOut(timeoutMs)));
    try {
      await waiting.promise;
      return watch;
    } catch (error) {
      watch.close();
      throw error;
    } finally {
      cancel();
    }
  }

  connected(): void {
    this.#isConnected = true;
    for (const watched of this.#keys.values()) this.#begin(watched);
  }

  connectionLost(): void {
    this.#isConnected = false;
    for (const watched of this.#keys.values()) {
      watched.isRegistered = false;
      watched.attempt = undefined;
      watched.cancelRetry();
    }
  }

  /** A notification of the key with this name, in base 16. */
  notified(name: string, message: Message): void {
    const watched = this.#keys.get(name);
    if (!watched) return;
    let event: Change;
    try {
      event = change(message);
    } catch {
      return;
    }
    if (event.version) {
      if (watched.last && event.version.compare(watched.last) <= 0) return;
      watched.last = event.version;
    }
    for (const watch of [...watched.watches]) watch.push(event);
  }

  /** No change comes any more. */
  end(error: StoreError): void {
    for (const watched of [...this.#keys.values()]) this.#endKey(watched, error);
  }

  /** Asks until the store registers the key or refuses to, or the connection is lost. */
  #begin(watched: WatchedKey): void {
    if (!this.#isConnected) return;
    const attempt = {};
    watched.attempt = attempt;
    this.register(["KEYNOTIFY", watched.key], REGISTRATION_TIMEOUT_MS)
      .then(registered)
      .then(
        () => {
          if (watched.attempt === attempt) this.#registered(watched);
        },
        (error: unknown) => {
          if (watched.attempt !== attempt) return;
          if (isPassing(error)) watched.cancelRetry = after(RETRY_AFTER_MS, () => this.#begin(watched));
          else if (error instanceof StoreError) this.#endKey(watched, error);
        },
      );
  }

  #registered(watched: WatchedKey): void {
    watched.isRegistered = true;
    for (const watch of [...watched.watches]) {
      const waiting = watched.waiting.get(watch);
      if (waiting) waiting.resolve();
      else watch.push({ type: "gap" });
    }
    watched.waiting.clear();
  }

  #endKey(watched: WatchedKey, error: StoreError): void {
    this.#forget(watched);
    this.#count -= watched.watches.length;
    for (const watch of watched.watches.splice(0)) watch.end(error);
    for (const waiting of watched.waiting.values()) waiting.reject(error);
  }

  /** A watch was closed. The store is told of the last one of a key. */
  #remove(watched: WatchedKey, watch: Watch): void {
    const at = watched.watches.indexOf(watch);
    if (at < 0) return;
    watched.watches.splice(at, 1);
    watched.waiting.delete(watch);
    this.#count -= 1;
    if (watched.watches.length > 0) return;
    const isKnownToTheStore = watched.attempt !== undefined;
    this.#forget(watched);
    // It ends with the connection at the latest; what comes until then is for nobody.
    if (isKnownToTheStore) this.register(["KEYNOTIFY", watched.key, "STOP"], REGISTRATION_TIMEOUT_MS).catch(() => {});
  }

  #forget(watched: WatchedKey): void {
    this.#keys.delete(hex(watched.key));
    watched.attempt = undefined;
    watched.cancelRetry();
  }
}
