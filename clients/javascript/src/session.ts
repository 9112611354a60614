/**
 * What outlives a connection: requests that wait for their replies, and watched keys.
 *
 * A session connects, and connects again when the connection is lost. The server forgets a client with its connection; on the next
 * one the session subscribes again, sends every request that has no reply yet once more, and registers its keys. A request that
 * comes again has the same correlation data, so the store answers it from memory if it was executed, and does not execute it twice.
 */

import { Backoff } from "./backoff.js";
import { bytes, text, type Bytes } from "./bytes.js";
import { size, type Connection, type Listener, type Message, type Open, type Request } from "./connection.js";
import { ConnectError, Ended, Loss, LossKind, QueueFull, Refused, StoreError, TimedOut, TooLarge } from "./errors.js";
import { HlcClock, type Hlc } from "./hlc.js";
import type { CheckedOptions } from "./options.js";
import { readReply, type Reply } from "./replies.js";
import { encode } from "./resp.js";
import { after, deferred, now, wallNow, type Deferred } from "./timer.js";
import { INVOKE_TOPIC, notificationPrefix, responseTopic } from "./topics.js";
import { WatchedKeys } from "./watched-keys.js";

/** What the connection is doing. After `waiting`, another attempt follows; after `ended`, nothing. */
export type ConnectionState =
  | { readonly type: "connecting" }
  | { readonly type: "connected" }
  | { readonly type: "waiting"; readonly waitMs: number; readonly loss: Loss }
  | { readonly type: "ended"; readonly loss: Loss };

/** A request that has no reply yet. */
interface Pending {
  readonly request: Request;
  readonly until: number;
  readonly reply: Deferred<Reply>;
  readonly isRegistration: boolean;
}

/** How to ask. */
export interface Asking {
  readonly timeoutMs?: number | undefined;
  readonly fencing?: Hlc | undefined;
  /** It fails with its connection, and is not sent again. */
  readonly isRegistration?: boolean;
}

/** One client of the state store. */
export class Session {
  readonly options: CheckedOptions;
  readonly watched: WatchedKeys;
  readonly stateListeners = new Set<(state: ConnectionState) => void>();
  readonly #open: Open;
  readonly #clock: HlcClock;
  readonly #backoff: Backoff;
  readonly #responseTopic: string;
  readonly #notificationPrefix: string;
  readonly #pending = new Map<number, Pending>();
  readonly #decided = deferred<void>();
  #state: ConnectionState = { type: "connecting" };
  #connection: Connection | undefined;
  #packetSizeMax: number | undefined;
  #isNotified = false;
  #hasBeenUp = false;
  #lastNumber = 0;
  #cancelTimer = (): void => {};

  constructor(options: CheckedOptions, open: Open) {
    this.options = options;
    this.#open = open;
    this.#clock = new HlcClock(options.clientId);
    this.#backoff = new Backoff(options.backoff, Math.random);
    this.#responseTopic = responseTopic(options.clientId);
    this.#notificationPrefix = notificationPrefix(options.clientId);
    const register = (words: readonly Bytes[], timeoutMs: number): Promise<Reply> =>
      this.request(words, { timeoutMs, isRegistration: true });
    this.watched = new WatchedKeys(register, options.watchesMax, options.watchCapacity);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Resolves when there is a connection. @throws ConnectError if there will be none, OptionsError if there cannot be. */
  async start(): Promise<void> {
    try {
      if (this.#state.type !== "ended") this.#connect();
    } catch (error) {
      this.end();
      throw error;
    }
    await this.#decided.promise;
    if (this.#state.type === "ended") throw new ConnectError(this.options.address, this.#state.loss);
  }

  /** Ends the session, if it has not ended: what is under way fails, and the server is told. */
  end(): void {
    if (this.#state.type !== "ended") this.#end(new Loss(LossKind.REQUESTED));
  }

  /** Differs from call to call. */
  nextNumber(): number {
    this.#lastNumber += 1;
    return this.#lastNumber;
  }

  /** Asks the state store, across reconnects. @throws StoreError */
  async request(words: readonly Bytes[], asking: Asking = {}): Promise<Reply> {
    if (this.#state.type === "ended") throw new Ended(this.#state.loss);
    const { timeoutMs = this.options.timeoutMs, fencing, isRegistration = false } = asking;
    if (this.#pending.size >= this.options.operationsMax) throw new QueueFull(this.options.operationsMax, "operationsMax");
    const number = this.nextNumber();
    const request = this.#request(number, words, fencing);
    const pending = { request, until: now() + timeoutMs, reply: deferred<Reply>(), isRegistration };
    this.#pending.set(number, pending);
    const cancel = after(timeoutMs, () => pending.reply.reject(new TimedOut(timeoutMs)));
    try {
      this.#send(number, pending);
      return await pending.reply.promise;
    } finally {
      cancel();
      this.#pending.delete(number);
    }
  }

  // The connection, from one to the next.

  #connect(): void {
    this.#setState({ type: "connecting" });
    const isCurrent = (): boolean => this.#connection === connection;
    const listener: Listener = {
      opened: (packetSizeMax) => isCurrent() && this.#up(packetSizeMax),
      lost: (loss) => isCurrent() && this.#lost(loss),
      received: (message) => isCurrent() && this.#received(message),
      refused: (number, reason, explanation) => {
        this.#pending.get(number)?.reply.reject(new Refused(reason, explanation));
      },
      notSubscribed: (filter, reason) => isCurrent() && this.#notSubscribed(filter, reason),
    };
    const connection = this.#open(this.options, listener);
    this.#connection = connection;
    this.#cancelTimer = after(this.options.connectTimeoutMs, () => {
      connection.close();
      this.#lost(new Loss(LossKind.CONNECT_TIMEOUT));
    });
  }

  #up(packetSizeMax: number): void {
    this.#cancelTimer();
    this.#packetSizeMax = packetSizeMax;
    this.#hasBeenUp = true;
    this.#backoff.connected(now());
    this.#connection?.subscribe(this.#responseTopic);
    for (const [number, pending] of this.#pending) this.#send(number, pending);
    this.watched.connected();
    this.#setState({ type: "connected" });
  }

  #lost(loss: Loss): void {
    this.#down();
    const { reconnect } = this.options;
    const goesOn = reconnect === "always" || (reconnect === "after-first" && this.#hasBeenUp);
    if (loss.isFinal || !goesOn) return this.#end(loss);
    const waitMs = this.#backoff.nextWait(now());
    this.#cancelTimer = after(waitMs, () => this.#connect());
    this.#setState({ type: "waiting", waitMs, loss });
  }

  #down(): void {
    this.#cancelTimer();
    this.#connection = this.#packetSizeMax = undefined;
    this.#isNotified = false;
    this.watched.connectionLost();
    for (const [number, pending] of this.#pending) {
      if (!pending.isRegistration) continue;
      this.#pending.delete(number);
      // Nobody looks at it: the key is registered again.
      pending.reply.reject(new Ended(new Loss(LossKind.TRANSPORT)));
    }
  }

  #end(loss: Loss): void {
    const connection = this.#connection;
    this.#down();
    connection?.close();
    for (const pending of this.#pending.values()) pending.reply.reject(new Ended(loss));
    this.watched.end(new Ended(loss));
    this.#setState({ type: "ended", loss });
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    if (state.type === "connected" || state.type === "ended") this.#decided.resolve();
    for (const listener of [...this.stateListeners]) listener(state);
  }

  // Requests.

  #request(number: number, words: readonly Bytes[], fencing: Hlc | undefined): Request {
    return {
      topic: INVOKE_TOPIC,
      payload: encode(words),
      userProperties: {
        __ts: this.#clock.now(wallNow()).toString(),
        __protVer: "1.0",
        ...(fencing && { __ft: fencing.toString() }),
      },
      correlationData: bytes(`${this.options.seed}/${number}`),
      responseTopic: this.#responseTopic,
      expiry: 0,
    };
  }

  /** Sends a request, if there is a connection; otherwise it is sent when there is one. */
  #send(number: number, pending: Pending): void {
    if (this.#packetSizeMax === undefined) return;
    const bytesNeeded = size(pending.request);
    if (bytesNeeded > this.#packetSizeMax) return pending.reply.reject(new TooLarge(bytesNeeded, this.#packetSizeMax));
    if (pending.isRegistration && !this.#isNotified) {
      this.#isNotified = true;
      this.#connection?.subscribe(`${this.#notificationPrefix}+`);
    }
    // Not executed when nobody waits for it any more.
    const expiry = Math.max(1, Math.ceil((pending.until - now()) / 1000));
    this.#connection?.publish(number, { ...pending.request, expiry: Math.min(expiry, 2 ** 32 - 1) });
  }

  // What the connection reports.

  #received(message: Message): void {
    if (message.topic === this.#responseTopic) return this.#replied(message);
    if (message.topic.startsWith(this.#notificationPrefix)) {
      this.watched.notified(message.topic.slice(this.#notificationPrefix.length), message);
    }
  }

  #replied(message: Message): void {
    const [seed, number] = text(message.correlationData ?? new Uint8Array()).split("/");
    const pending = seed === this.options.seed ? this.#pending.get(Number(number)) : undefined;
    if (!pending) return;
    try {
      pending.reply.resolve(readReply(message));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      pending.reply.reject(error);
    }
  }

  #notSubscribed(filter: string, reason: number): void {
    // The store hands notifications to the client that registered, subscribed or not.
    if (filter !== this.#responseTopic) return;
    for (const pending of this.#pending.values()) {
      pending.reply.reject(new Refused(reason, `may not subscribe to ${filter}`));
    }
  }
}
