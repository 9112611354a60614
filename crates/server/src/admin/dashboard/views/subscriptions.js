// Who has subscribed to what, at this node.

import { empty, h } from "../dom.js";
import { Paged } from "../paged.js";

/** @type {import("../table.js").Column<any>[]} */
const COLUMNS = [
  { name: "Filter", show: ({ filter }) => h("span", { class: "mono" }, filter) },
  { name: "Share", show: ({ share }) => share ?? "–" },
  {
    name: "Client id",
    show: ({ client_id }) => h("a", { class: "mono", href: `#/client/${encodeURIComponent(client_id)}` }, client_id),
  },
  { name: "QoS", isNumber: true, show: ({ qos }) => qos },
];

export function subscriptions() {
  const nothing = empty(
    "Nobody has subscribed at this node",
    h(
      "p",
      {},
      "A subscription is shown as soon as its SUBACK is sent: ",
      h("code", {}, "mosquitto_sub -V 5 -t 'hall/#'"),
      ".",
    ),
  );
  const paged = new Paged({
    path: "/api/subscriptions",
    rows: "subscriptions",
    caption: "Subscriptions of sessions at this node",
    columns: COLUMNS,
    search: "filter",
    label: "Search filters (any part of one)",
    nothing,
  });
  return {
    element: h(
      "div",
      {},
      h("h1", {}, "Subscriptions"),
      h(
        "p",
        { class: "lead" },
        "Each filter, and the session that has it. Of a shared subscription each message goes to one session of its share.",
      ),
      paged.element,
    ),
  };
}
