// The frame of a page that needs an MQTT connection: its form, and what is there as long as there is one.

import { h, put } from "../dom.js";
import { login, withoutConnection } from "../mqtt/login.js";

/** @typedef {import("../mqtt/client.js").Client} Client */

/**
 * @param {import("../live.js").Live} live
 * @param {{ title: string, lead: string, what: string, without: string }} words `what`: what the connection is for; `without`: what it would show
 * @param {(client: Client) => { element: HTMLElement, stop: () => void }} open for each connection; `stop` at its end, or when the page is left
 */
export function connectedPage(live, words, open) {
  const place = h("div");
  /** @type {() => void} */
  let stop = () => {};
  const connection = login(live, words.what, (client) => {
    stop();
    const opened = client ? open(client) : null;
    stop = opened?.stop ?? (() => {});
    put(place, opened?.element ?? withoutConnection(words.without));
  });
  const lead = h("p", { class: "lead" }, words.lead);
  const element = h("div", {}, h("h1", {}, words.title), lead, connection.element, place);
  const close = () => {
    connection.close();
    stop();
  };
  return { element, update: connection.update, close };
}
