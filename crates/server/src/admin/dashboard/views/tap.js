// A live look at what is published to a filter.

import { noteFailure } from "../dialog.js";
import { field, h } from "../dom.js";
import { connectedPage } from "./connected.js";
import { Messages, nothingYet } from "./messages.js";

/** @typedef {import("../mqtt/client.js").Client} Client */

const WORDS = {
  title: "Live tap",
  lead: "What is published to a filter, at any node, while you look. A subscriber that is as slow as a person loses messages rather than hold anybody up: the tap subscribes with QoS 0.",
  what: "The tap",
  without: "Messages are shown here",
};

/** @param {import("../live.js").Live} live */
export function tap(live) {
  return connectedPage(live, WORDS, tapOf);
}

/** @param {Client} client */
function tapOf(client) {
  const filter = h("input", {
    required: true,
    placeholder: "plant/+/temperature",
    value: "#",
    spellcheck: "false",
    autocomplete: "off",
  });
  const button = h("button", { class: "main-action", type: "submit" }, "Tap");
  const messages = new Messages(nothingYet());
  const listener = (/** @type {import("../mqtt/client.js").Message} */ message) => messages.add(message);
  let tapped = "";
  const stop = () => {
    if (tapped) void client.unsubscribe(tapped, listener).catch(() => {});
    tapped = "";
    filter.readOnly = false;
    button.textContent = "Tap";
  };
  const start = async () => {
    const wanted = filter.value.trim();
    button.disabled = true;
    try {
      await client.subscribe(wanted, 0, listener);
      tapped = wanted;
      filter.readOnly = true;
      button.textContent = "Stop";
    } catch (error) {
      noteFailure(error);
    }
    button.disabled = false;
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (tapped) stop();
    else void start();
  };
  const form = h("form", { class: "panel form", onsubmit: submit }, field("Topic filter", filter, "wide"), button);
  return { element: h("div", {}, form, messages.element), stop };
}
