/**
 * The state store of Statehold: keys, watches, leases, locks and leader election over MQTT 5, in Node.js and in browsers.
 *
 * | to | use |
 * |---|---|
 * | keep keys, and watch them change | `StateStore`, `Watch` |
 * | have something alone | `Lock`, or a `Lease` without waiting |
 * | agree on one of many | `LeaderElection` |
 *
 * Every queue has a limit and every request a timeout.
 */

export type { BackoffLimits } from "./backoff.js";
export { text, type Bytes } from "./bytes.js";
export { Client, type Connecting } from "./client.js";
export {
  ConnectError,
  Ended,
  ErrorText,
  Loss,
  LossKind,
  MalformedReply,
  NotInTime,
  OperationError,
  OptionsError,
  QueueFull,
  Refused,
  RefusedByStore,
  StateholdError,
  StoreError,
  TimedOut,
  TooLarge,
  WrongStatus,
} from "./errors.js";
export { Hlc } from "./hlc.js";
export { LeaderElection, LeaderWatch, Leadership } from "./leader-election.js";
export { Lease } from "./lease.js";
export { Lock, type LockOptions, type Lost } from "./lock.js";
export type { Options, Reconnect, TlsOptions } from "./options.js";
export type { Change, Deletion, Entry, SetOutcome } from "./replies.js";
export type { ConnectionState } from "./session.js";
export { StateStore, type SetOptions } from "./state-store.js";
export { Watch, type WatchEvent } from "./watch.js";
