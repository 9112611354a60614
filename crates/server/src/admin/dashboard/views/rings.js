// The rings of the session plane: which part of the client ids each node is the home of.

import * as api from "../api.js";
import { empty, failure, h, put } from "../dom.js";
import { number } from "../format.js";
import { bar } from "../plot.js";

/** @typedef {import("../live.js").Live} Live */

const ABOUT = /** @type {Record<string, string>} */ ({
  primary:
    "Who is responsible now: the nodes that are RUNNING. Where a client id falls on it is its home; the nodes that follow are to have the copies of its session.",
  minority:
    "Who will be responsible when joins and merges have ended: the nodes that are JOINING, RUNNING or MERGING. It differs from the primary ring only while nodes come and go.",
});

/** @param {Live} live */
export function rings(live) {
  const list = h("div", {});
  const element = h(
    "div",
    {},
    h("h1", {}, "Rings"),
    h(
      "p",
      { class: "lead" },
      "Who holds what share. Nodes join and leave a ring as their states change; shares are about equal, since each node has many places on it.",
    ),
    list,
  );
  let asked = 0;
  const ask = async () => {
    const own = ++asked;
    try {
      const { rings } = await api.get("/api/rings");
      if (own === asked) put(list, draw(live, rings));
    } catch (error) {
      if (own === asked) put(list, failure(error, ask));
    }
  };
  const update = () => {
    // Only a cluster has rings; whether it is one is known after the first round.
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
      "This server has no rings",
      h("p", {}, "They place sessions on the nodes of a cluster; a server on its own holds all of them."),
    ),
  );
}

/**
 * @param {Live} live
 * @param {any[]} rings
 */
function draw(live, rings) {
  if (rings.length === 0) return [alone()];
  return rings.map(({ name, nodes }) => {
    const rows = nodes.map((/** @type {any} */ { node, virtual_nodes, share }, /** @type {number} */ index) =>
      h(
        "tr",
        {},
        h("td", { "data-label": "Node" }, h("span", { class: "mono" }, live.addressOf(String(node)))),
        h("td", { "data-label": "Share" }, h("div", {}, `${(share * 100).toFixed(1)} %`, bar(share, (index % 6) + 1))),
        h("td", { class: "number", "data-label": "Places" }, number(virtual_nodes)),
      ),
    );
    const heads = ["Node", "Share of the client ids", "Places"].map((head, index) =>
      h("th", { scope: "col", class: index === 2 ? "number" : "" }, head),
    );
    const table = h("table", { class: "cards" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
    const title = `${name.charAt(0).toUpperCase()}${name.slice(1)} ring`;
    return h(
      "section",
      { class: "panel" },
      h("h2", {}, title),
      h("p", { class: "soft" }, ABOUT[name] ?? ""),
      nodes.length > 0
        ? table
        : empty("Nobody is on it", h("p", {}, "The page Nodes says which state each node is in.")),
    );
  });
}
