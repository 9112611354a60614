// A live look at what is published to a filter.

import { noteFailure } from "../dialog.js";
import { field, h, put } from "../dom.js";
import { login, withoutConnection } from "../mqtt/login.js";
import { Messages, nothingYet } from "./messages.js";

/** @typedef {import("../mqtt/client.js").Client} Client */

/** @param {import("../live.js").Live} live */
export function tap(live) {
  const place = h("div");
  /** @type {() => void} */
  let stop = () => {};
  const open = (/** @type {Client} */ client) => {
    const tapped = tapOf(client);
    stop = tapped.stop;
    return tapped.element;
  };
  const connection = login(live, "The tap", (client) => {
    stop();
    stop = () => {};
    put(place, client ? open(client) : withoutConnection("Messages are shown here"));
  });
  const element = h(
    "div",
    {},
    h("h1", {}, "Live tap"),
    h(
      "p",
      { class: "lead" },
      "What is published to a filter, at any node, while you look. A subscriber that is as slow as a person loses messages rather than hold anybody up: the tap subscribes with QoS 0.",
    ),
    connection.element,
    place,
  );
  const close = () => {
    connection.close();
    stop();
  };
  return { element, update: connection.update, close };
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
