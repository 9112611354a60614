// Retained messages: found by a filter, looked at, deleted.

import * as api from "../api.js";
import { ask, note, noteFailure } from "../dialog.js";
import { empty, facts, failure, h, put } from "../dom.js";
import { bytes, fromBase64, moment } from "../format.js";
import { Paged } from "../paged.js";
import { forms } from "./key.js";

/** @typedef {import("../live.js").Live} Live */

/** A topic's levels stay levels of the path; what is in each is encoded. @param {string} topic */
const pathOf = (topic) => `/api/retained/${encodeURIComponent(topic)}`;

/** @param {Live} _ */
export function retained(_) {
  const shown = h("section", { class: "panel", "aria-label": "The message", tabindex: "-1", hidden: true });
  const open = async (/** @type {string} */ topic) => {
    shown.hidden = false;
    try {
      put(shown, draw(await api.get(pathOf(topic)), remove));
    } catch (error) {
      put(
        shown,
        h("h2", { class: "mono break" }, topic),
        failure(error, () => void open(topic)),
      );
    }
    // Below the list it would go unseen.
    shown.focus();
  };
  const remove = async (/** @type {string} */ topic) => {
    const why = h(
      "p",
      {},
      "Whoever subscribes to ",
      h("strong", { class: "mono break" }, topic),
      " from now on does not get this message any more, at no node of the cluster. Subscribers of now are sent an empty one.",
    );
    const content = [why, h("p", { class: "soft small" }, "This needs a token of the scope write.")];
    if (!(await ask("Delete this retained message?", content, { act: "Delete", isDanger: true }))) return;
    try {
      await api.change("DELETE", pathOf(topic));
      note(`The retained message of ${topic} is deleted.`);
      shown.hidden = true;
    } catch (error) {
      noteFailure(error);
    }
    void paged.ask();
  };
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    {
      name: "Topic",
      show: ({ topic }) => h("button", { type: "button", class: "link mono", onclick: () => open(topic) }, topic),
    },
    { name: "Size", isNumber: true, show: (row) => bytes(row.bytes) },
    { name: "QoS", isNumber: true, show: ({ qos }) => qos },
    { name: "Stored", show: ({ stored_at }) => moment(stored_at) },
    { name: "Expires", show: ({ expires_at }) => (expires_at ? moment(expires_at) : "never") },
    { name: "Content type", show: ({ content_type }) => content_type ?? "–" },
  ];
  const nothing = empty(
    "There is no retained message",
    h(
      "p",
      {},
      "One is there as soon as somebody publishes it: ",
      h("code", {}, "mosquitto_pub -V 5 -q 1 -r -t hall/light -m on"),
      ".",
    ),
  );
  const paged = new Paged({
    path: "/api/retained",
    rows: "retained",
    caption: "Retained messages, which are the same on every node",
    columns,
    search: "filter",
    label: "Topic filter (+ for one level, # for all that follow)",
    initial: "#",
    nothing,
  });
  return {
    element: h(
      "div",
      {},
      h("h1", {}, "Retained"),
      h(
        "p",
        { class: "lead" },
        "The last message of each topic that was published to be kept. Topics below $SYS are found with $SYS/#.",
      ),
      paged.element,
      shown,
    ),
  };
}

/**
 * @param {any} message
 * @param {(topic: string) => void} remove
 */
function draw(message, remove) {
  const { topic, qos, stored_at, expires_at, content_type, user_properties } = message;
  const user = Object.entries(user_properties ?? {}).map(([name, value]) =>
    Array.isArray(value) ? value.join(": ") : `${name}: ${value}`,
  );
  const pairs = /** @type {[string, import("../dom.js").Child][]} */ ([
    ["Size", bytes(message.bytes)],
    ["QoS", qos],
    ["Stored", moment(stored_at)],
    ["Expires", expires_at ? moment(expires_at) : "never"],
    ["Content type", content_type],
    ["Response topic", message.response_topic],
    ["User properties", user.join(", ") || null],
  ]);
  return h(
    "div",
    {},
    h("h2", { class: "mono break" }, topic),
    facts(pairs),
    forms(fromBase64(message.payload_base64)),
    message.payload_truncated && h("p", { class: "soft small" }, "Only its first part is shown."),
    h("button", { type: "button", class: "danger", onclick: () => remove(topic) }, "Delete …"),
  );
}
