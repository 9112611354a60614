// The groups of the state store: who leads each, who has a copy, and by how much it is behind.

import { badge, empty, h } from "../dom.js";
import { number, seconds } from "../format.js";
import { Plot } from "../plot.js";
import { Table } from "../table.js";

/** @typedef {import("../live.js").Live} Live */
/** @typedef {{ group: string, leader: string, term: number | undefined, last: number | undefined, applied: number | undefined, lag: { address: string, entries: number, isActive: boolean }[], copies: string }} Row */

/** @type {import("../table.js").Column<Row>[]} */
const COLUMNS = [
  { name: "Group", by: ({ group }) => group, show: ({ group }) => group },
  {
    name: "Leader",
    by: ({ leader }) => leader,
    show: ({ leader }) => (leader ? h("span", { class: "mono" }, leader) : badge("nobody", "bad")),
  },
  { name: "Term", isNumber: true, by: ({ term }) => term ?? 0, show: ({ term }) => number(term) },
  { name: "Log", isNumber: true, by: ({ last }) => last ?? 0, show: ({ last, applied }) => number(last ?? applied) },
  {
    name: "Lag",
    by: ({ lag }) => Math.max(0, ...lag.map(({ entries }) => entries)),
    show: ({ lag }) => (lag.length === 0 ? h("span", { class: "soft" }, "not known") : h("div", {}, lag.map(replica))),
  },
  { name: "Copies", by: ({ copies }) => copies, show: ({ copies }) => h("span", { class: "mono" }, copies) },
];

/** A line that has not gone on for so long has ended. */
const GONE_AFTER_MS = 10_000;

/** @param {{ address: string, entries: number, isActive: boolean }} replica */
function replica({ address, entries, isActive }) {
  return h(
    "div",
    {},
    h("span", { class: "mono" }, address),
    " ",
    isActive
      ? badge(entries === 0 ? "up to date" : `${number(entries)} behind`, entries > 1_000 ? "warn" : "good")
      : badge("silent", "bad"),
  );
}

/** @param {Live} live */
export function groups(live) {
  const nothing = empty(
    "There are no groups yet",
    h(
      "p",
      {},
      "The state store has one or more groups of keys, each a log with a leader. They are there when the node has recovered.",
    ),
  );
  const table = new Table("Groups, as this node sees them", COLUMNS, { nothing });
  const lag = new Plot("Entries that nodes have not confirmed", number);
  const sync = new Plot("Time to sync the log", seconds);
  const element = h(
    "div",
    {},
    h("h1", {}, "Groups"),
    h(
      "p",
      { class: "lead" },
      "Each group of keys is a replicated log. Its leader decides what is written; a group without one serves nothing. Lag is what a copy has not confirmed yet.",
    ),
    h("section", { class: "panel" }, table.element),
    h("div", { class: "columns" }, lag.element, sync.element),
  );
  return {
    element,
    update() {
      table.show(live.cluster ? ofCluster(live) : alone(live));
      // Of the copies that lag most; who leads by now lags no more.
      const last = live.history.last?.at ?? 0;
      const most = [...live.lags]
        .filter(([, points]) => (points.at(-1)?.at ?? 0) >= last - GONE_AFTER_MS)
        .sort(([, a], [, b]) => (b.at(-1)?.value ?? 0) - (a.at(-1)?.value ?? 0))
        .slice(0, 6);
      lag.show(most.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, points]) => ({ name, points })));
      sync.show(
        [0.5, 0.99].map((quantile) => ({
          name: quantile === 0.5 ? "half of them" : "99 of 100",
          points: live.history.quantiles("statehold_log_sync_seconds", quantile),
        })),
      );
    },
  };
}

/** @param {Live} live @returns {Row[]} */
function ofCluster(live) {
  const { cluster, history } = live;
  const names = (/** @type {string[]} */ ids, /** @type {string} */ role) => ids.map((id) => live.addressOf(id) + role);
  return cluster.groups.map((/** @type {any} */ group) => ({
    group: String(group.group),
    leader: group.leader ? live.addressOf(group.leader) : "",
    term: group.term,
    last: group.last ?? undefined,
    applied: history.value("statehold_log_applied_index", { group: String(group.group) }) ?? undefined,
    lag: group.replicas
      .filter((/** @type {any} */ { node }) => node !== group.leader)
      .map((/** @type {any} */ { node, lacks, active }) => ({
        address: live.addressOf(node),
        entries: lacks,
        isActive: active,
      })),
    copies: [
      ...names(group.voters, ""),
      ...names(group.learners, " (learner)"),
      ...names(group.outgoing, " (leaving)"),
    ].join(", "),
  }));
}

/** @param {Live} live @returns {Row[]} */
function alone({ history }) {
  return history.samples("statehold_log_term").map(({ labels, value }) => {
    const group = labels.group ?? "";
    const isLed = history.value("statehold_log_has_leader", { group }) === 1;
    const applied = history.value("statehold_log_applied_index", { group }) ?? undefined;
    return {
      group,
      leader: isLed ? "this node" : "",
      term: value,
      last: undefined,
      applied,
      lag: [],
      copies: "this node",
    };
  });
}
