/** Topics of the state store: where requests go, and where replies and notifications come from. */

import { bytes, hex } from "./bytes.js";

export const INVOKE_TOPIC = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
const NOTIFY_PREFIX = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";

/** Where a client receives its replies; it may do so without a rule of its own. */
export function responseTopic(clientId: string): string {
  return `clients/${clientId}/services/statestore/_any_/command/invoke/response`;
}

/** What the topics of a client's notifications begin with; the key in base 16 follows. */
export function notificationPrefix(clientId: string): string {
  return `${NOTIFY_PREFIX}/${hex(bytes(clientId))}/command/notify/`;
}
