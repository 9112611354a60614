// Reason codes of MQTT 5 in words, and what to do about those that a person meets here.

/** @type {Record<number, string>} */
const NAMES = {
  0x80: "Unspecified error",
  0x81: "Malformed packet",
  0x82: "Protocol error",
  0x83: "Implementation specific error",
  0x84: "Unsupported protocol version",
  0x85: "Client identifier not valid",
  0x86: "Bad user name or password",
  0x87: "Not authorized",
  0x88: "Server unavailable",
  0x89: "Server busy",
  0x8a: "Banned",
  0x8b: "Server shutting down",
  0x8c: "Bad authentication method",
  0x8d: "Keep alive timeout",
  0x8e: "Session taken over",
  0x8f: "Topic filter invalid",
  0x90: "Topic name invalid",
  0x93: "Receive maximum exceeded",
  0x94: "Topic alias invalid",
  0x95: "Packet too large",
  0x96: "Message rate too high",
  0x97: "Quota exceeded",
  0x98: "Administrative action",
  0x99: "Payload format invalid",
  0x9a: "Retain not supported",
  0x9b: "QoS not supported",
  0x9c: "Use another server",
  0x9d: "Server moved",
  0x9e: "Shared subscriptions not supported",
  0x9f: "Connection rate exceeded",
  0xa0: "Maximum connect time",
  0xa1: "Subscription identifiers not supported",
  0xa2: "Wildcard subscriptions not supported",
};

/** @type {Record<number, string>} */
const NEXT = {
  0x85: "Choose another client id; a policy may want it to be your user name.",
  0x86: "Look at the user name and the password.",
  0x87: "Your login does not have this right. Use another one, or let somebody add it to the policy (docs/authorization.md).",
  0x8c: "This listener asks in a way that browsers do not speak. Use one with passwords (docs/authentication.md).",
  0x8e: "Another connection uses the same client id. Choose another one.",
  0x90: "A topic to publish to has no + and no #, and clients cannot publish below $SYS.",
  0x8f: "In a filter + and # stand for whole levels, and # is the last one.",
  0x97: "A limit of the server is reached; its overview says which.",
  0x9f: "Too many logins have failed from here. Wait a minute.",
};

/** Something that the server has refused over MQTT. */
export class MqttError extends Error {
  /**
   * @param {string} what
   * @param {number} [code]
   * @param {string} [reason] the server's own words
   * @param {string} [next]
   */
  constructor(what, code, reason, next) {
    const name = code === undefined ? "" : `: ${nameOf(code)}`;
    super(`${what}${name}${reason ? ` (${reason})` : ""}`);
    this.code = code;
    this.next = next ?? (code === undefined ? "" : (NEXT[code] ?? ""));
  }
}

/** @param {number} code */
export function nameOf(code) {
  return `${NAMES[code] ?? "Refused"} (0x${code.toString(16).padStart(2, "0")})`;
}
