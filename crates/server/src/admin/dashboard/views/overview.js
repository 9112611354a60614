// Everything in one look: is it well, how much goes through it, how fast, and what went wrong.

import { badge, h, keepOpen, put } from "../dom.js";
import { bytes, number, seconds } from "../format.js";
import { latest } from "../metrics.js";
import { Plot, spark } from "../plot.js";
import { attention } from "./attention.js";
import { STATES } from "./nodes.js";

/** @typedef {import("../live.js").Live} Live */
/** @typedef {import("../metrics.js").Point} Point */
/** @typedef {{ name: string, points: (live: Live) => Point[], show: (value: number | null) => string, level?: (value: number) => "" | "is-warn" | "is-bad", about: string }} Tile */

const REFUSED = [
  "statehold_malformed_packets_total",
  "statehold_connections_turned_away_total",
  "statehold_handshakes_failed_total",
  "statehold_authentication_failures_total",
  "statehold_denied_total",
  "statehold_memory_refused_total",
  "statehold_store_requests_refused_total",
];
const DROPPED = ["statehold_messages_dropped_total"];
const some = (/** @type {number} */ value) => (value > 0 ? "is-warn" : "");
const perSecond = (/** @type {number | null} */ value) => `${number(value)}/s`;

/** @type {Tile[]} */
const TILES = [
  {
    name: "Messages in",
    points: ({ history }) => history.rates("statehold_messages_total", { direction: "in" }),
    show: perSecond,
    about: "PUBLISH packets from clients",
  },
  {
    name: "Messages out",
    points: ({ history }) => history.rates("statehold_messages_total", { direction: "out" }),
    show: perSecond,
    about: "PUBLISH packets to clients",
  },
  {
    name: "Store requests",
    points: ({ history }) => history.rates("statehold_store_requests_total"),
    show: perSecond,
    about: "Requests to the state store that were answered",
  },
  {
    name: "Store p99",
    points: ({ history }) => history.quantiles("statehold_store_request_seconds", 0.99),
    show: seconds,
    about: "99 of 100 requests took no longer",
  },
  {
    name: "Disk p99",
    points: ({ history }) => history.quantiles("statehold_log_sync_seconds", 0.99),
    show: seconds,
    about: "99 of 100 batches were on the disk within this time",
  },
  {
    name: "Clients",
    points: ({ history }) => history.values("statehold_sessions_connected"),
    show: number,
    about: "Sessions with a connection",
  },
  {
    name: "Sessions",
    points: ({ history }) => history.values("statehold_sessions"),
    show: number,
    about: "Connected or not",
  },
  {
    name: "Waiting",
    points: ({ history }) => history.values("statehold_waiting_messages"),
    show: number,
    about: "Messages that wait for connections and that no owner stores",
  },
  {
    name: "Keys",
    points: ({ history }) => history.values("statehold_store_keys"),
    show: number,
    about: "In the state store",
  },
  {
    name: "Memory",
    points: memory,
    show: (value) => (value === null ? "–" : `${(value * 100).toFixed(1)} %`),
    level: (value) => (value > 0.9 ? "is-bad" : value > 0.75 ? "is-warn" : ""),
    about: "Of what the server may use",
  },
  {
    name: "Refused",
    points: ({ history }) => history.rates(REFUSED),
    show: perSecond,
    level: some,
    about: "Packets, connections and requests that were refused",
  },
  {
    name: "Dropped",
    points: ({ history }) => history.rates(DROPPED),
    show: perSecond,
    level: some,
    about: "Messages that somebody did not get",
  },
  {
    name: "Unmerged slots",
    points: ({ history }) => history.values("statehold_unmerged_slots"),
    show: number,
    level: some,
    about: "Slots of sessions of which this node lacks something: stop no node while it is not 0",
  },
  {
    name: "Open writes",
    points: ({ history }) => history.values("statehold_replication_open_events"),
    show: number,
    about: "Writes that are not on the disks of all their owners",
  },
];

/** @param {Live} live */
function memory({ history }) {
  const limit = history.value("statehold_memory_bytes_max");
  if (limit === null || limit > 2 ** 60) return [];
  return history
    .values("statehold_memory_bytes")
    .map(({ at, value }) => ({ at, value: value === null ? null : value / limit }));
}

/** @param {Live} live */
export function overview(live) {
  const health = h("div", { role: "status" });
  const cluster = h("div");
  const tiles = h("ul", { class: "tiles" });
  const plots = {
    messages: new Plot("Messages a second", number),
    latency: new Plot("Latency, 99 of 100", seconds),
    store: new Plot("Store requests a second", number),
    errors: new Plot("Refused and dropped a second", number),
    traffic: new Plot("Traffic with clients, bytes a second", bytes),
    memory: new Plot("Memory by part", bytes),
  };
  const element = h(
    "div",
    {},
    h("h1", {}, "Overview"),
    h(
      "p",
      { class: "lead" },
      "What this node does, as it was in the last minutes while this page was open. Figures of the other nodes are at their own admin ports.",
    ),
    health,
    cluster,
    tiles,
    h(
      "div",
      { class: "columns" },
      Object.values(plots).map((plot) => plot.element),
    ),
  );
  return {
    element,
    update() {
      keepOpen(health, () => put(health, attention(live)));
      keepOpen(cluster, () => put(cluster, ofCluster(live)));
      put(
        tiles,
        TILES.map((tile) => draw(tile, live)),
      );
      drawPlots(plots, live);
    },
  };
}

/**
 * All nodes with their states, and whether all groups are led.
 * @param {Live} live
 */
function ofCluster(live) {
  const nodes = [...live.states()].map(([node, state]) =>
    h(
      "li",
      { class: "row" },
      h("span", { class: "mono" }, live.addressOf(node)),
      badge(state, STATES[state]?.[1] ?? ""),
    ),
  );
  if (nodes.length === 0) return null;
  const led = live.history.samples("statehold_log_has_leader").map(({ value }) => value === 1);
  const said = `${led.filter((isLed) => isLed).length} of ${led.length} groups have a leader`;
  const groups = h("li", {}, h("a", { href: "#/groups" }, said));
  return h("ul", { class: "panel row strip", "aria-label": "The cluster" }, nodes, groups);
}

/**
 * @param {Tile} tile
 * @param {Live} live
 */
function draw({ name, points, show, level, about }, live) {
  const all = points(live);
  const known = all.filter(({ value }) => value !== null);
  const value = latest(name.endsWith("p99") ? known : all);
  const kind = value !== null && level ? level(value) : "";
  return h(
    "li",
    { class: `tile ${kind}`, title: about },
    h("div", { class: "name" }, name),
    h("div", { class: "figure" }, show(value)),
    spark(all),
  );
}

/**
 * @param {Record<"messages" | "latency" | "store" | "errors" | "traffic" | "memory", Plot>} plots
 * @param {Live} live
 */
function drawPlots(plots, { history }) {
  const both = (/** @type {string} */ name) => [
    { name: "in", points: history.rates(name, { direction: "in" }) },
    { name: "out", points: history.rates(name, { direction: "out" }) },
  ];
  plots.messages.show(both("statehold_messages_total"));
  plots.traffic.show(both("statehold_bytes_total"));
  const verbs = history.labels("statehold_store_requests_total", "verb");
  plots.store.show(
    verbs
      .filter((verb) => verb !== "unknown")
      .slice(0, 6)
      .map((verb) => ({ name: verb, points: history.rates("statehold_store_requests_total", { verb }) })),
  );
  plots.latency.show([
    { name: "store", points: history.quantiles("statehold_store_request_seconds", 0.99) },
    { name: "disk", points: history.quantiles("statehold_log_sync_seconds", 0.99) },
  ]);
  plots.errors.show([
    { name: "refused", points: history.rates(REFUSED) },
    { name: "dropped", points: history.rates(DROPPED) },
    {
      name: "CONNECT refused",
      points: history.rates("statehold_connects_total", { reason_code: (code) => code !== "0x00" && code !== "0" }),
    },
  ]);
  const parts = history.labels("statehold_memory_bytes", "part");
  plots.memory.show(
    parts.slice(0, 6).map((part) => ({ name: part, points: history.values("statehold_memory_bytes", { part }) })),
  );
}
