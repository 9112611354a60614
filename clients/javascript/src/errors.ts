/**
 * What can go wrong, sorted by what a caller can do about it.
 *
 * ```text
 * StateholdError
 *   OptionsError                     the options cannot be used
 *   ConnectError                     there is no connection
 *   StoreError                       a request had no effect, or an unknown one
 *     RefusedByStore                 the state store said no; nothing changed
 *     OperationError                 the request or its reply did not get through
 *       QueueFull, TooLarge            nothing was sent
 *       TimedOut, Ended                it is unknown whether it was executed
 *       Refused                        the MQTT server said no; nothing changed
 *       MalformedReply, WrongStatus    the server speaks something else
 *   NotInTime                        the lock was not free in time
 * ```
 */

/** Every error of this package is one. */
export class StateholdError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** Options that cannot be used; nothing was connected. */
export class OptionsError extends StateholdError {}

/** How a connection ended or was not made. */
export const LossKind = {
  REQUESTED: "disconnected as asked",
  TRANSPORT: "the connection failed or was closed by the other side",
  CONNECT_TIMEOUT: "no answer to CONNECT in time",
  REFUSED: "the server refused the connection",
  DISCONNECTED: "the server ended the connection",
} as const;
export type LossKind = (typeof LossKind)[keyof typeof LossKind];

const SESSION_TAKEN_OVER = 0x8e;

/** Why a connection ended or was not made. */
export class Loss {
  constructor(
    readonly kind: LossKind,
    /** More about it, for people: an error of the system, or the server's words. */
    readonly detail = "",
    /** The reason code of CONNACK or DISCONNECT, 0x80 to 0xFF, if there was one. */
    readonly reason?: number,
  ) {}

  /**
   * Whether not to connect again.
   *
   * After a takeover another client goes on with this client id: coming back would end its connection.
   */
  get isFinal(): boolean {
    const isTakenOver = this.kind === LossKind.DISCONNECTED && this.reason === SESSION_TAKEN_OVER;
    return isTakenOver || this.kind === LossKind.REQUESTED;
  }

  toString(): string {
    const code = this.reason === undefined ? "" : ` (${reasonText(this.reason)})`;
    const advice = this.reason === SESSION_TAKEN_OVER ? "; give each client an id of its own" : "";
    return `${this.kind}${code}${this.detail ? ": " : ""}${this.detail}${advice}`;
  }
}

/** There is no connection. */
export class ConnectError extends StateholdError {
  constructor(
    readonly address: string,
    readonly loss: Loss,
  ) {
    super(`cannot connect to ${address}: ${loss}`);
  }
}

/** A request to the state store had no effect, or an unknown one. */
export class StoreError extends StateholdError {}

/** Why the state store refuses requests, in its words. */
export const ErrorText = {
  TIMESTAMP_AHEAD:
    "the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized",
  FENCING_TOKEN_REQUIRED: "a fencing token is required for this request",
  FENCING_TOKEN_AHEAD:
    "the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized",
  FENCING_TOKEN_LOWER: "the request fencing token is a lower version than the fencing token protecting the resource",
  QUOTA_EXCEEDED: "the quota has been exceeded",
  SYNTAX: "syntax error",
  UNKNOWN_COMMAND: "unknown command",
  WRONG_ARGUMENTS: "wrong number of arguments",
  NOT_AUTHORIZED: "not authorized",
  MISSING_TIMESTAMP: "missing timestamp",
  MALFORMED_TIMESTAMP: "malformed timestamp",
  KEY_LENGTH_ZERO: "the key length is zero",
  UNAVAILABLE: "the state store is unavailable",
  KEY_TOO_LONG_TO_WATCH: "the key is too long to be watched",
} as const;
export type ErrorText = (typeof ErrorText)[keyof typeof ErrorText];

const KNOWN: ReadonlySet<string> = new Set(Object.values(ErrorText));
const ADVICE: Partial<Record<string, string>> = {
  [ErrorText.FENCING_TOKEN_REQUIRED]: "the key is protected: pass the token of the lock as `fencing`",
  [ErrorText.FENCING_TOKEN_LOWER]: "another holder wrote since: stop, and acquire the lock again",
  [ErrorText.UNAVAILABLE]: "no majority of the nodes is there: ask again in a moment",
  [ErrorText.NOT_AUTHORIZED]: "the listener's policy has no rule that lets this client do so",
};

/** The state store said no; nothing changed. */
export class RefusedByStore extends StoreError {
  /** One of `ErrorText`; undefined if this version has no name for it. */
  readonly reason: ErrorText | undefined;

  constructor(
    /** The server's words. */
    readonly text: string,
  ) {
    // The protocol's published text has one word otherwise than what its clients know.
    const known = text.replace("a lower version that", "a lower version than");
    const advice = ADVICE[known];
    super(`the state store refused the request: ${text}${advice ? ` (${advice})` : ""}`);
    this.reason = KNOWN.has(known) ? (known as ErrorText) : undefined;
  }
}

/** The request did not get through, or its reply did not come back. */
export class OperationError extends StoreError {}

/** As many as allowed are under way or watched; nothing was sent. */
export class QueueFull extends OperationError {
  constructor(
    readonly limit: number,
    option: string,
  ) {
    super(`there are ${limit} already, as many as the option ${option} allows`);
  }
}

/** Larger than the server takes; nothing was sent. */
export class TooLarge extends OperationError {
  constructor(
    /** In bytes. */
    readonly size: number,
    /** In bytes. */
    readonly limit: number,
  ) {
    super(`the request has ${size} bytes, the server takes ${limit}: store smaller values`);
  }
}

/** No answer in time. Whether the server executed the request is unknown. */
export class TimedOut extends OperationError {
  constructor(readonly timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms; if it was a write, it is unknown whether it was executed: read the key`);
  }
}

/** The client has ended. Whether the server executed the request is unknown. */
export class Ended extends OperationError {
  constructor(readonly loss: Loss) {
    super(`the client has ended: ${loss}`);
  }
}

/** The MQTT server said no; nothing changed. */
export class Refused extends OperationError {
  constructor(
    /** The reason code of PUBACK or SUBACK, 0x80 to 0xFF. */
    readonly reason: number,
    readonly explanation = "",
  ) {
    super(`refused by the server: ${reasonText(reason)}${explanation ? " " : ""}${explanation}`);
  }
}

/** The reply is not one of the state store protocol. */
export class MalformedReply extends OperationError {
  constructor() {
    super("the reply is not one of the state store protocol: is this a server that speaks it?");
  }
}

/** The state store speaks another version of the protocol (`__stat` other than 200). */
export class WrongStatus extends OperationError {
  constructor(readonly status: string) {
    super(`the state store answered with status ${status}: it speaks another version`);
  }
}

/** Another had the lock all the time. */
export class NotInTime extends StateholdError {
  constructor() {
    super("the lock was not free in time");
  }
}

/** Whether the same request may go well in a moment. */
export function isPassing(error: unknown): boolean {
  if (error instanceof RefusedByStore) return error.reason === ErrorText.UNAVAILABLE;
  return error instanceof TimedOut || error instanceof QueueFull;
}

function reasonText(reason: number): string {
  return `0x${reason.toString(16).toUpperCase().padStart(2, "0")}`;
}
