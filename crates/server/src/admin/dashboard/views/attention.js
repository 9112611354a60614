// What somebody should look at, in words, and where to read on.

import { failure, h } from "../dom.js";
import { seconds } from "../format.js";

/** @typedef {import("../live.js").Live} Live */
/** @typedef {{ said: string, href?: string, isBad?: boolean }} Matter */

const DAY_S = 86_400;
const EXPIRES_SOON_S = 14 * DAY_S;
const MEMORY = ["normal", "scarce", "critical", "full"];

/** @param {Live} live */
export function attention(live) {
  if (live.error) return failure(live.error);
  if (!live.history.last) return h("div", { class: "callout" }, "Asking the node …");
  const matters = [...health(live), ...cluster(live), ...replication(live), ...limits(live), ...expiries(live)];
  if (matters.length === 0)
    return h(
      "div",
      { class: "callout good" },
      h("strong", {}, "All is well. "),
      "The node is ready, and nothing waits to be looked at.",
    );
  const isBad = matters.some((matter) => matter.isBad);
  const items = matters.map(({ said, href }) => h("li", {}, said, " ", href && h("a", { href }, "Look")));
  return h(
    "div",
    { class: `callout ${isBad ? "bad" : "warn"}` },
    h("strong", {}, isBad ? "Something is wrong" : "To be looked at"),
    h("ul", {}, items),
  );
}

/** @param {Live} live @returns {Matter[]} */
function health({ notReady }) {
  return notReady.map((why) => ({ said: `The node is not ready: ${why}.`, isBad: true }));
}

/** @param {Live} live @returns {Matter[]} */
function cluster(live) {
  const matters = [...live.states()]
    .filter(([, state]) => state !== "RUNNING")
    .map(([node, state]) => ({
      said: `Node ${live.addressOf(node)} is ${state}.`,
      href: "#/nodes",
      isBad: state === "DEAD",
    }));
  const leaderless = live.history.samples("statehold_log_has_leader").filter(({ value }) => value === 0);
  for (const { labels } of leaderless)
    matters.push({
      said: `Group ${labels.group} has no leader: its keys cannot be read or written here.`,
      href: "#/groups",
      isBad: true,
    });
  const ahead = live.history.samples("statehold_peer_clock_ahead_seconds").filter(({ value }) => Math.abs(value) > 0.5);
  for (const { labels, value } of ahead)
    matters.push({
      said: `The clock of ${live.addressOf(labels.node ?? "")} differs by ${seconds(Math.abs(value))}.`,
      href: "#/nodes",
      isBad: false,
    });
  return matters;
}

/** @param {Live} live @returns {Matter[]} */
function replication({ history }) {
  const matters = [];
  const unmerged = history.value("statehold_unmerged_slots") ?? 0;
  if (unmerged > 0)
    matters.push({
      said: `${unmerged} slots of sessions are not merged: stop no node until this is 0.`,
      href: "#/nodes",
    });
  if ((history.value("statehold_store_differences_total") ?? 0) > 0)
    matters.push({
      said: "A copy of the state store differed from that of the majority since the start, and was fetched anew.",
      href: "#/groups",
    });
  return matters;
}

/** @param {Live} live @returns {Matter[]} */
function limits({ history }) {
  const matters = [];
  const level = history.value("statehold_memory_level") ?? 0;
  if (level > 0) matters.push({ said: `Memory is ${MEMORY[level] ?? level}.`, href: "#/queues", isBad: level > 1 });
  for (const what of ["keys", "bytes"]) {
    const [used, limit] = [history.value(`statehold_store_${what}`), history.value(`statehold_store_${what}_max`)];
    if (used !== null && limit !== null && used > 0.9 * limit)
      matters.push({
        said: `The state store has used ${Math.round((100 * used) / limit)} % of its ${what}.`,
        href: "#/keys",
      });
  }
  return matters;
}

/** @param {Live} live @returns {Matter[]} */
function expiries({ history }) {
  const now = Date.now() / 1_000;
  const of = (/** @type {string} */ name, /** @type {string} */ what) =>
    history
      .samples(name)
      .filter(({ value }) => value - now < EXPIRES_SOON_S)
      .map(({ labels, value }) => ({
        said:
          value < now
            ? `${what} ${labels.file} has expired.`
            : `${what} ${labels.file} expires in ${seconds(value - now)}.`,
        isBad: value < now + DAY_S,
      }));
  return [
    ...of("statehold_certificate_expiry_timestamp_seconds", "The certificate"),
    ...of("statehold_crl_expiry_timestamp_seconds", "The revocation list"),
  ];
}
