// Nodes of the cluster, their states, and what is not merged yet.

import { badge, empty, h, keepOpen, put } from "../dom.js";
import { moment, number, seconds } from "../format.js";
import { Table } from "../table.js";

/** @typedef {import("../live.js").Live} Live */
/** @typedef {{ node: string, address: string, isOwn: boolean, state: string, stage: string, since: number | undefined, isReached: boolean, ahead: number | undefined, trip: number | undefined, leads: string[] }} Row */

/** What a state means, as docs/replication.md says it. */
export const STATES = /** @type {Record<string, [string, "good" | "warn" | "bad"]>} */ ({
  JOINING: ["it gives what it holds, and gets what it will own", "warn"],
  RUNNING: ["it has what it owns", "good"],
  MERGE_MINORITY: ["it was on the smaller side of a split, and gives what it holds", "warn"],
  MERGING: ["it has given what it held, and gets what it will own", "warn"],
  DEAD: ["it was not heard of for cluster.silence_max", "bad"],
});

/** @type {import("../table.js").Column<Row>[]} */
const COLUMNS = [
  {
    name: "Address",
    by: ({ address }) => address,
    show: ({ address, isOwn }) => h("span", {}, h("span", { class: "mono" }, address), isOwn ? " (this node)" : ""),
  },
  {
    name: "State",
    by: ({ state }) => state,
    show: ({ state }) => h("span", { title: STATES[state]?.[0] ?? "" }, badge(state, STATES[state]?.[1] ?? "")),
  },
  { name: "Member", by: ({ stage }) => stage, show: ({ stage }) => stage },
  {
    name: "Reached",
    by: ({ isReached }) => String(isReached),
    show: ({ isReached }) => (isReached ? "yes" : badge("no", "bad")),
  },
  { name: "Leads groups", by: ({ leads }) => leads.join(), show: ({ leads }) => leads.join(", ") || "–" },
  {
    name: "Round trip",
    isNumber: true,
    by: ({ trip }) => trip ?? 0,
    show: ({ trip, isOwn }) => (isOwn ? "–" : seconds(trip)),
  },
  {
    name: "Clock",
    isNumber: true,
    by: ({ ahead }) => ahead ?? 0,
    show: ({ ahead }) => (ahead === undefined ? "–" : `${ahead > 0 ? "+" : ""}${ahead} ms`),
  },
  { name: "Since", by: ({ since }) => since ?? 0, show: ({ since }) => moment(since) },
  { name: "Id", by: ({ node }) => node, show: ({ node }) => h("span", { class: "mono soft" }, node) },
];

/** @type {[string, string, string, boolean][]} */
const GAUGES = [
  [
    "Unmerged slots",
    "statehold_unmerged_slots",
    "This node owns them and lacks something of them. Stop the next node when it is 0 at all nodes.",
    true,
  ],
  ["Nodes present", "statehold_replication_present_nodes", "This node replicates with them; it counts itself.", false],
  [
    "Open writes",
    "statehold_replication_open_events",
    "Writes of this node that are not on the disks of all their owners.",
    false,
  ],
  ["Topics cleared", "statehold_retained_cleared", "Cleared topics of which a node may not know.", false],
];

/** @param {Live} live */
export function nodes(live) {
  const nothing = empty(
    "This server is on its own",
    h(
      "p",
      {},
      "A cluster of three survives the loss of one node. Start each with ",
      h("code", {}, "statehold serve --peer-listen ADDR --join ADDR,ADDR,ADDR --cluster-size 3"),
      "; docs/cluster.md has the rest.",
    ),
  );
  const table = new Table("Nodes, as this one sees them", COLUMNS, { nothing });
  const waiting = h("div");
  const gauges = h("ul", { class: "tiles" });
  const states = Object.entries(STATES).map(([state, [means, kind]]) => [
    h("dt", {}, badge(state, kind)),
    h("dd", {}, means),
  ]);
  const element = h(
    "div",
    {},
    h("h1", {}, "Nodes"),
    h("p", { class: "lead" }, "Who is in the cluster, how far each is, and what has not been merged yet."),
    waiting,
    h("section", { class: "panel" }, table.element),
    h("h2", {}, "Replication"),
    gauges,
    h(
      "details",
      { class: "panel" },
      h("summary", {}, "What the states mean"),
      h("dl", { class: "facts" }, states.flat()),
    ),
  );
  return {
    element,
    update() {
      table.show(rows(live));
      const callers = live.cluster?.waiting ?? [];
      const said = callers.map((/** @type {any} */ { address, node }) => `${address} (${node})`).join(", ");
      keepOpen(waiting, () =>
        put(
          waiting,
          said &&
            h(
              "div",
              { class: "callout warn" },
              `Would like to join: ${said}. `,
              h("code", {}, "statehold cluster add ADDRESS"),
              " lets a node in.",
            ),
        ),
      );
      put(
        gauges,
        GAUGES.map((gauge) => tile(live, gauge)),
      );
    },
  };
}

/** @param {Live} live @returns {Row[]} */
function rows(live) {
  const states = live.states();
  const { history, cluster } = live;
  return (cluster?.nodes ?? []).map((/** @type {any} */ node) => ({
    node: node.node,
    address: node.address,
    isOwn: node.node === cluster.node,
    state: states.get(node.node) ?? node.sessions?.state ?? "–",
    stage: node.stage,
    since: node.since ?? undefined,
    isReached: node.reachable || node.node === cluster.node,
    ahead: node.clock_ahead_ms ?? undefined,
    trip: history.value("statehold_peer_round_trip_seconds", { node: node.node }) ?? undefined,
    leads: node.leads.map(String),
  }));
}

/**
 * @param {Live} live
 * @param {[string, string, string, boolean]} gauge
 */
function tile({ history }, [name, metric, about, isBad]) {
  const value = history.value(metric);
  return h(
    "li",
    { class: `tile ${isBad && (value ?? 0) > 0 ? "is-warn" : ""}` },
    h("div", { class: "name" }, name),
    h("div", { class: "figure" }, number(value)),
    h("p", { class: "soft small" }, about),
  );
}
