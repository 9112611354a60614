// Clients of the cluster: who is connected, what each has, and ending a connection.

import * as api from "../api.js";
import { ask, note, noteFailure } from "../dialog.js";
import { badge, empty, facts, failure, field, h, put } from "../dom.js";
import { bytes, moment, number, seconds } from "../format.js";
import { Paged } from "../paged.js";
import { Table } from "../table.js";

/** @typedef {import("../live.js").Live} Live */

/** Session Expiry Interval of a session that never ends (3.1.2.11.2). */
const NEVER = 0xffff_ffff;

const state = (/** @type {any} */ { connected }) => (connected ? badge("connected", "good") : badge("away"));

/** @type {import("../table.js").Column<any>[]} */
const COLUMNS = [
  {
    name: "Client id",
    show: (row) => h("a", { class: "mono", href: `#/client/${encodeURIComponent(row.client_id)}` }, row.client_id),
  },
  { name: "State", show: state },
  { name: "Principal", show: ({ principal }) => principal ?? "–" },
  { name: "Address", show: (row) => h("span", { class: "mono" }, row.address ?? row.connected_to ?? "–") },
  { name: "Since", show: ({ connected_since }) => moment(connected_since) },
  { name: "Subscriptions", isNumber: true, show: ({ subscriptions }) => number(subscriptions) },
  {
    name: "Queued",
    isNumber: true,
    show: (row) => (row.queued_messages ? `${number(row.queued_messages)} (${bytes(row.queued_bytes)})` : "0"),
  },
  { name: "In flight", isNumber: true, show: ({ in_flight }) => number(in_flight) },
];

/** @param {Live} _ */
export function clients(_) {
  const which = h(
    "select",
    {},
    h("option", { value: "" }, "All"),
    h("option", { value: "true" }, "Connected"),
    h("option", { value: "false" }, "Away"),
  );
  const nothing = empty(
    "No client has come yet",
    h(
      "p",
      {},
      "Try one: ",
      h("code", {}, "mosquitto_sub -V 5 -t 'hall/#' -v"),
      ".",
    ),
  );
  const paged = new Paged({
    path: "/api/clients",
    rows: "clients",
    caption: "Sessions of the cluster, connected or not",
    columns: COLUMNS,
    search: "search",
    label: "Search client ids",
    filter: field("State", which),
    query: () => ({ connected: which.value }),
    nothing,
  });
  which.onchange = () => paged.restart();
  const element = h(
    "div",
    {},
    h("h1", {}, "Clients"),
    h("p", { class: "lead" }, "Who is connected, and the sessions of those who are away. Addresses are known to the node of the connection, queues to the owners of the session."),
    paged.element,
  );
  return { element };
}

/**
 * @param {Live} live
 * @param {string} id
 */
export function clientPage(live, id) {
  const place = h("div", {}, h("p", { class: "soft" }, "Asking the node …"));
  const path = `/api/clients/${encodeURIComponent(id)}`;
  const load = async () => {
    try {
      put(place, draw(live, await api.get(path), disconnect, load));
    } catch (error) {
      put(place, failure(error, load));
    }
  };
  const disconnect = async () => {
    const reason = h("input", { maxlength: "200", autocomplete: "off" });
    const why = h(
      "p",
      {},
      "The connection of ",
      h("strong", { class: "mono break" }, id),
      " is ended with 0x98 (Administrative action). Its session stays as long as its expiry says, and a client may connect again at once.",
    );
    const content = [
      why,
      field("Reason, which the client is told", reason),
      h("p", { class: "soft small" }, "This needs a token of the scope write."),
    ];
    if (!(await ask("Disconnect this client?", content, { act: "Disconnect", isDanger: true }))) return;
    try {
      await api.change("POST", `${path}/disconnect`, reason.value ? { reason: reason.value } : {});
      note(`${id} is disconnected.`);
    } catch (error) {
      noteFailure(error);
    }
    await load();
  };
  void load();
  return {
    element: h(
      "div",
      {},
      h("p", {}, h("a", { href: "#/clients" }, "All clients")),
      h("h1", { class: "mono break" }, id),
      place,
    ),
  };
}

/**
 * @param {Live} live
 * @param {any} client
 * @param {() => void} disconnect
 * @param {() => void} load
 */
function draw(live, client, disconnect, load) {
  const expiry = client.session_expiry_s;
  const pairs = /** @type {[string, import("../dom.js").Child][]} */ ([
    ["State", state(client)],
    ["Connected to", client.connected_to && h("span", { class: "mono" }, live.addressOf(client.connected_to))],
    ["Owners", h("span", { class: "mono" }, client.owners.map((owner) => live.addressOf(owner)).join(", "))],
    ["Principal", client.principal],
    ["Address", client.address],
    ["Listener", client.listener],
    ["Protocol", client.protocol],
    ["Connected since", moment(client.connected_since)],
    [
      "Keep alive",
      client.keep_alive_s == null ? "–" : client.keep_alive_s === 0 ? "none" : seconds(client.keep_alive_s),
    ],
    ["Session expiry", expiry === 0 ? "ends with its connection" : expiry === NEVER ? "never" : seconds(expiry)],
    ["Queue", `${number(client.queued_messages)} messages, ${bytes(client.queued_bytes)}`],
    ["In flight", number(client.in_flight)],
  ]);
  const { will } = client;
  /** @type {Table<any>} */
  const table = new Table(
    "Its subscriptions",
    [
      { name: "Filter", by: ({ filter }) => filter, show: ({ filter }) => h("span", { class: "mono" }, filter) },
      { name: "Share", by: ({ share }) => share ?? "", show: ({ share }) => share ?? "–" },
      { name: "QoS", isNumber: true, by: ({ qos }) => qos, show: ({ qos }) => qos },
      { name: "Options", show: options },
    ],
    {
      search: "Search filters",
      nothing: empty("It has no subscription", h("p", {}, "It only publishes, or has not subscribed yet.")),
    },
  );
  table.show(client.subscriptions_list ?? []);
  return [
    h(
      "section",
      { class: "panel" },
      facts(pairs),
      h(
        "div",
        { class: "row" },
        client.connected && h("button", { class: "danger", type: "button", onclick: disconnect }, "Disconnect …"),
        h("button", { type: "button", onclick: load }, "Load again"),
      ),
    ),
    will &&
      h(
        "section",
        { class: "panel" },
        h("h2", {}, "Will"),
        facts([
          ["Topic", h("span", { class: "mono" }, will.topic)],
          ["QoS", will.qos],
          ["Retain", will.retain ? "yes" : "no"],
          ["Delay", seconds(will.delay_s)],
          ["Size", bytes(will.bytes)],
        ]),
      ),
    h("section", { class: "panel" }, table.element),
  ];
}

/** @param {any} subscription */
function options({ no_local, retain_as_published, retain_handling, identifier }) {
  const said = [
    no_local && "no local",
    retain_as_published && "retain as published",
    retain_handling > 0 && `retain handling ${retain_handling}`,
    identifier && `identifier ${identifier}`,
  ];
  return said.filter(Boolean).join(", ") || "–";
}
