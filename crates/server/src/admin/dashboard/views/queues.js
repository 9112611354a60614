// What waits: for clients, for other nodes, for the disk; and what was given up.

import * as api from "../api.js";
import { empty, failure, h, put } from "../dom.js";
import { bytes, number } from "../format.js";
import { Plot, bar } from "../plot.js";
import { Table } from "../table.js";

/** @typedef {import("../live.js").Live} Live */

/** @type {import("../table.js").Column<any>[]} */
const COLUMNS = [
  {
    name: "Client id",
    by: ({ client_id }) => client_id,
    show: ({ client_id }) => h("a", { class: "mono", href: `#/client/${encodeURIComponent(client_id)}` }, client_id),
  },
  { name: "Messages", isNumber: true, by: (row) => row.queued_messages, show: (row) => number(row.queued_messages) },
  { name: "Bytes", isNumber: true, by: (row) => row.queued_bytes, show: (row) => bytes(row.queued_bytes) },
  { name: "In flight", isNumber: true, by: (row) => row.in_flight, show: (row) => number(row.in_flight) },
  { name: "Connected", by: ({ connected }) => String(connected), show: ({ connected }) => (connected ? "yes" : "no") },
];

/** The server is asked for so many pages of clients at most to find the long queues. */
const PAGES_MAX = 10;

/** @param {Live} live */
export function queues(live) {
  const waiting = new Plot("Messages that wait for connections", number);
  const inflight = new Plot("Sent, and not acknowledged", number);
  const peers = new Plot("Writes that are not on all disks", number);
  const dropped = new Plot("Dropped a second, by cause", number);
  const memory = h("section", { class: "panel" });
  const longest = h("section", { class: "panel" });
  const nothing = empty(
    "No queue has a message",
    h(
      "p",
      {},
      "Messages wait for durable sessions whose clients are away or slow. When a queue reaches its limit, its oldest messages are dropped and counted.",
    ),
  );
  const table = new Table("Sessions with messages that wait, as far as this node owns them", COLUMNS, {
    search: "Search client ids",
    nothing,
  });
  const load = h("button", { type: "button" }, "Load again");
  const said = h("div");
  const ask = async () => {
    load.disabled = true;
    try {
      const { rows, isAll } = await withQueues();
      table.show(rows);
      put(said, isAll ? null : h("p", { class: "soft small" }, "Only the first 10,000 sessions were looked at."));
    } catch (error) {
      const isMissing = error instanceof api.ApiError && error.status === 404;
      put(said, isMissing ? h("p", { class: "soft" }, "This server does not list its clients.") : failure(error));
    }
    load.disabled = false;
  };
  load.onclick = ask;
  put(longest, h("div", { class: "row spread" }, h("h2", {}, "By session"), load), said, table.element);
  void ask();
  const element = h(
    "div",
    {},
    h("h1", {}, "Queues"),
    h("p", { class: "lead" }, "Everything that waits has a limit, and the limit says what gives way (docs/mqtt.md)."),
    memory,
    h("div", { class: "columns" }, waiting.element, inflight.element, peers.element, dropped.element),
    longest,
  );
  return {
    element,
    update() {
      const { history } = live;
      waiting.show([{ name: "messages", points: history.values("statehold_waiting_messages") }]);
      inflight.show([{ name: "deliveries", points: history.values("statehold_inflight_messages") }]);
      peers.show([{ name: "items", points: history.values("statehold_replication_open_events") }]);
      const causes = history.labels("statehold_messages_dropped_total", "cause");
      dropped.show(
        causes
          .slice(0, 6)
          .map((cause) => ({ name: cause, points: history.rates("statehold_messages_dropped_total", { cause }) })),
      );
      put(memory, h("h2", {}, "Memory"), memoryOf(live));
    },
  };
}

/** @param {Live} live */
function memoryOf({ history }) {
  const [used, limit] = [history.value("statehold_memory_bytes"), history.value("statehold_memory_bytes_max")];
  if (used === null || limit === null) return h("p", { class: "soft" }, "Asking the node …");
  const messages = bytes(history.value("statehold_memory_bytes", { part: "messages" }));
  if (limit > 2 ** 60)
    return h(
      "p",
      {},
      `${bytes(used)} are in use, of which ${messages} are messages. There is no limit (limits.memory_max).`,
    );
  const share = used / limit;
  return h(
    "div",
    {},
    h("p", {}, `${bytes(used)} of ${bytes(limit)} are in use, of which ${messages} are messages.`),
    bar(share, share > 0.75 ? 2 : 1),
  );
}

async function withQueues() {
  const rows = [];
  let after = /** @type {string | undefined} */ (undefined);
  for (let page = 0; page < PAGES_MAX; page++) {
    const { clients, next } = await api.get("/api/clients", { limit: 1_000, after });
    rows.push(...clients.filter((/** @type {any} */ each) => each.queued_messages > 0 || each.in_flight > 0));
    after = next;
    if (!after) return { rows, isAll: true };
  }
  return { rows, isAll: false };
}
