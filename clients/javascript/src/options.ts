/** Where to connect to, and as whom. */

import { BACKOFF_DEFAULT, type BackoffLimits } from "./backoff.js";
import { bytes, hex } from "./bytes.js";
import { OptionsError } from "./errors.js";

/** When to connect again: never, if the first attempt succeeded, or also if it fails. */
export type Reconnect = "never" | "after-first" | "always";

/** Certificates, as Node.js takes them; in browsers there is nothing to say about them. */
export interface TlsOptions {
  /** Authorities to trust instead of the system's, in PEM. */
  readonly ca?: string | readonly string[];
  /** The client's certificate and key, in PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** Whom the server's certificate has to be for, if it is not the host of the address. */
  readonly servername?: string;
}

/** Where to connect to, and as whom. Times are in milliseconds. */
export interface Options {
  /**
   * `host:port`, or a URL: `mqtt://host:port`, `mqtts://host:port` (TLS), `ws://host:port/path`, `wss://host:port/path`. In
   * browsers one of the last two.
   */
  readonly address: string;
  /**
   * What the client calls itself; drawn at random by default. Not empty, without `+` and `#`, 32,000 bytes at most. Two clients with
   * one id end each other's connections, and a session that waits for that id at the server is ended.
   */
  readonly clientId?: string;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: TlsOptions;
  /** How often something is sent at least, in seconds, 1 to 65,535; a server that does not answer is gone. Default 30. */
  readonly keepAlive?: number;
  /** How long a request may take, reconnects included. Default 10,000. */
  readonly timeoutMs?: number;
  /** From opening the connection to the server's CONNACK. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Default `after-first`. */
  readonly reconnect?: Reconnect;
  /** Waits between attempts to connect. Default 100, 30,000 and 10,000. */
  readonly backoff?: BackoffLimits;
  /** How many requests may be under way; one more throws `QueueFull`. Default 4096. */
  readonly operationsMax?: number;
  /** How many watches there may be; one more throws `QueueFull`. Default 65,536. */
  readonly watchesMax?: number;
  /**
   * How many changes wait for the reader of a watch. When one more comes they are dropped, and a gap takes their place. Default 1024.
   */
  readonly watchCapacity?: number;
}

/** Options with nothing left open. */
export interface CheckedOptions {
  readonly address: string;
  readonly url: string;
  readonly clientId: string;
  /** Tells this client from others that had its id; 16 digits of base 16. */
  readonly seed: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: TlsOptions;
  readonly keepAlive: number;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly reconnect: Reconnect;
  readonly backoff: BackoffLimits;
  readonly operationsMax: number;
  readonly watchesMax: number;
  readonly watchCapacity: number;
}

/** In base 16 it has to fit into the topic of notifications. */
const CLIENT_ID_BYTES_MAX = 32_000;
const STRING_BYTES_MAX = 65_535;

/** Checks everything; what is left to do can only fail because of the network. */
export function checked(given: Options): CheckedOptions {
  const seed = hex(crypto.getRandomValues(new Uint8Array(8))).toLowerCase();
  const options: CheckedOptions = {
    address: given.address,
    url: url(given.address),
    clientId: given.clientId ?? `statehold-${seed}`,
    seed,
    username: given.username,
    password: given.password,
    tls: given.tls ?? {},
    keepAlive: given.keepAlive ?? 30,
    timeoutMs: given.timeoutMs ?? 10_000,
    connectTimeoutMs: given.connectTimeoutMs ?? 10_000,
    reconnect: given.reconnect ?? "after-first",
    backoff: given.backoff ?? BACKOFF_DEFAULT,
    operationsMax: given.operationsMax ?? 4096,
    watchesMax: given.watchesMax ?? 65_536,
    watchCapacity: given.watchCapacity ?? 1024,
  };
  const isClientIdTooLong = bytes(options.clientId).length > CLIENT_ID_BYTES_MAX;
  if (options.clientId === "" || isClientIdTooLong || /[+#\0]/.test(options.clientId)) {
    throw new OptionsError("the client id is empty, longer than 32,000 bytes, or has +, # or U+0000");
  }
  if (options.username?.includes("\0") || isTooLong(options.username)) {
    throw new OptionsError("the user name is longer than 65,535 bytes, or has U+0000");
  }
  if (isTooLong(options.password)) throw new OptionsError("the password is longer than 65,535 bytes");
  if (!(options.keepAlive >= 1 && options.keepAlive <= 65_535)) {
    throw new OptionsError(`the keep alive is ${options.keepAlive} s: give 1 to 65,535`);
  }
  for (const name of ["timeoutMs", "connectTimeoutMs", "operationsMax", "watchesMax", "watchCapacity"] as const) {
    if (!(options[name] > 0)) throw new OptionsError(`${name} has to be greater than 0`);
  }
  return options;
}

function url(address: string): string {
  const text = address.includes("://") ? address : `mqtt://${address}`;
  const [, scheme, host, port, path] = /^([a-z]+):\/\/(\[[^\]]+\]|[^:/?#@]+):([0-9]{1,5})(\/.*)?$/.exec(text) ?? [];
  const isWeb = scheme === "ws" || scheme === "wss";
  const isKnown = isWeb || ((scheme === "mqtt" || scheme === "mqtts") && path === undefined);
  if (!isKnown || !host || Number(port) > 65_535) {
    throw new OptionsError(
      `${JSON.stringify(address)} is not host:port, mqtt://host:port, mqtts://host:port, ws://host:port or wss://host:port`,
    );
  }
  return isWeb && path === undefined ? `${text}/mqtt` : text;
}

function isTooLong(value: string | undefined): boolean {
  return value !== undefined && bytes(value).length > STRING_BYTES_MAX;
}
