// Ring of the session plane: slots of client ids, and the nodes that own them.

import * as api from "../api.js";
import { empty, failure, h, put } from "../dom.js";
import { number } from "../format.js";
import { bar } from "../plot.js";

/** @typedef {import("../live.js").Live} Live */

/** @param {Live} live */
export function rings(live) {
  const list = h("div", {});
  const element = h(
    "div",
    {},
    h("h1", {}, "Ring"),
    h(
      "p",
      { class: "lead" },
      "Who owns what share. Each client id is in a slot. The primary owner of a slot decides about it, and its other owners have copies. Shares are about equal.",
    ),
    list,
  );
  let asked = 0;
  const ask = async () => {
    const own = ++asked;
    try {
      const said = await api.get("/api/rings");
      if (own === asked) put(list, draw(live, said));
    } catch (error) {
      if (own === asked) put(list, failure(error, ask));
    }
  };
  const update = () => {
    // Only a cluster has a ring; whether it is one is known after the first round.
    if (live.states().size > 0) void ask();
    else if (live.history.last) put(list, alone());
  };
  return { element, update, close: () => void (asked += 1) };
}

function alone() {
  return h(
    "div",
    { class: "panel" },
    empty(
      "This server has no ring",
      h("p", {}, "It places sessions on the nodes of a cluster; a server on its own owns all of them."),
    ),
  );
}

/**
 * @param {Live} live
 * @param {any} said
 */
function draw(live, { slots, nodes }) {
  const rows = nodes.map((/** @type {any} */ { node, state, primary_slots, owned_slots, share }, /** @type {number} */ index) =>
    h(
      "tr",
      {},
      h("td", { "data-label": "Node" }, h("span", { class: "mono" }, live.addressOf(String(node)))),
      h("td", { "data-label": "State" }, state),
      h("td", { "data-label": "Share" }, h("div", {}, `${(share * 100).toFixed(1)} %`, bar(share, (index % 6) + 1))),
      h("td", { class: "number", "data-label": "Primary" }, number(primary_slots)),
      h("td", { class: "number", "data-label": "Owned" }, number(owned_slots)),
    ),
  );
  const heads = ["Node", "State", "Share of the client ids", "Primary slots", "Owned slots"].map((head, index) =>
    h("th", { scope: "col", class: index > 2 ? "number" : "" }, head),
  );
  const table = h("table", { class: "cards" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
  return [h("section", { class: "panel" }, h("h2", {}, `${number(slots)} slots`), table)];
}
