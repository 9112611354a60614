/** The handle of a connected client. */

import { open } from "./connection.js";
import { checked, type Options } from "./options.js";
import { Session, type ConnectionState } from "./session.js";
import { StateStore } from "./state-store.js";

/** What may happen while a client connects. */
export interface Connecting {
  /** Gives up when it is aborted, and ends the client. */
  readonly signal?: AbortSignal;
  /** Called with every state from the beginning; later as well. */
  readonly onStateChange?: (state: ConnectionState) => void;
}

/**
 * A client of the state store.
 *
 * It connects again by itself when the connection is lost (`Options.reconnect`). Requests wait for that, until their timeout;
 * watches go on, with a gap for what could not be seen.
 */
export class Client {
  readonly #session: Session;

  private constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Connects, to `options` or to an address with default options.
   *
   * @throws OptionsError if they cannot be used, ConnectError if the first attempt fails (with `reconnect: "always"` it waits
   * instead) or was given up.
   */
  static async connect(options: Options | string, { signal, onStateChange }: Connecting = {}): Promise<Client> {
    const session = new Session(checked(typeof options === "string" ? { address: options } : options), open);
    if (onStateChange) session.stateListeners.add(onStateChange);
    const giveUp = (): void => session.end();
    if (signal?.aborted) giveUp();
    signal?.addEventListener("abort", giveUp);
    try {
      await session.start();
      return new Client(session);
    } finally {
      signal?.removeEventListener("abort", giveUp);
    }
  }

  /** What the client calls itself. */
  get clientId(): string {
    return this.#session.options.clientId;
  }

  /** What the connection is doing. */
  get state(): ConnectionState {
    return this.#session.state;
  }

  /** Calls `listener` with every state from here on; returns what ends that. */
  onStateChange(listener: (state: ConnectionState) => void): () => void {
    this.#session.stateListeners.add(listener);
    return () => this.#session.stateListeners.delete(listener);
  }

  /** The state store of the server. */
  stateStore(): StateStore {
    return new StateStore(this.#session);
  }

  /** Ends the client: what is under way throws `Ended`, watches end, and the server is told. */
  disconnect(): void {
    this.#session.end();
  }
}
