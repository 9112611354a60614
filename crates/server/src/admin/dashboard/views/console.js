// A console of MQTT: subscribe, publish with properties, and see what comes.

import { note, noteFailure } from "../dialog.js";
import { field, h, put } from "../dom.js";
import { bytesOf } from "../format.js";
import { connectedPage } from "./connected.js";
import { Messages, nothingYet } from "./messages.js";

/** @typedef {import("../mqtt/client.js").Client} Client */

const WORDS = {
  title: "Console",
  lead: "An MQTT 5 client in this page, for trying things out.",
  what: "The console",
  without: "Publish and subscribe here",
};

/** @param {import("../live.js").Live} live */
export function consolePage(live) {
  return connectedPage(live, WORDS, (client) => {
    const messages = new Messages(nothingYet());
    const subscriber = subscriptions(client, messages);
    const columns = h("div", { class: "columns" }, publisher(client), subscriber.element);
    return { element: h("div", {}, columns, messages.element), stop: subscriber.stop };
  });
}

/** @param {Client} client */
function publisher(client) {
  const topic = h("input", { required: true, placeholder: "hall/light", spellcheck: "false", autocomplete: "off" });
  const payload = h("textarea", { rows: 4, spellcheck: "false" });
  const form = h("select", {}, h("option", { value: "text" }, "Text"), h("option", { value: "hex" }, "Hex"));
  const qos = h("select", {}, h("option", { value: "0" }, "0"), h("option", { value: "1", selected: true }, "1"));
  const retain = h("input", { type: "checkbox" });
  const contentType = h("input", { placeholder: "application/json", autocomplete: "off" });
  const responseTopic = h("input", { spellcheck: "false", autocomplete: "off" });
  const correlation = h("input", { spellcheck: "false", autocomplete: "off" });
  const expiry = h("input", { type: "number", min: "0" });
  const user = h("textarea", { rows: 2, spellcheck: "false", placeholder: "name: value" });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const bytes = form.value === "hex" ? bytesOf(payload.value) : new TextEncoder().encode(payload.value);
    if (!bytes) return note("In this form a payload is pairs of the digits 0 to 9 and a to f.", "bad");
    const pairs = user.value.split("\n").filter((line) => line.trim() !== "");
    const properties = {
      ...(contentType.value && { contentType: contentType.value }),
      ...(responseTopic.value && { responseTopic: responseTopic.value }),
      ...(correlation.value && { correlationData: new TextEncoder().encode(correlation.value) }),
      ...(expiry.value && { messageExpiry: Number(expiry.value) }),
      user: pairs.map(
        (line) =>
          /** @type {[string, string]} */ ([
            line.split(":")[0]?.trim() ?? "",
            line.split(":").slice(1).join(":").trim(),
          ]),
      ),
    };
    try {
      await client.publish(topic.value, bytes, { qos: Number(qos.value), retain: retain.checked, properties });
      note(qos.value === "0" ? `Sent to ${topic.value}.` : `The server has taken the message to ${topic.value}.`);
    } catch (error) {
      noteFailure(error);
    }
  };
  return h(
    "section",
    { class: "panel", "aria-label": "Publish" },
    h("h2", {}, "Publish"),
    h(
      "form",
      { onsubmit: submit },
      field("Topic", topic),
      field("Payload", payload),
      h(
        "div",
        { class: "form" },
        field("Form", form),
        field("QoS", qos),
        h("label", { class: "check" }, retain, "Retain"),
        h("button", { class: "main-action", type: "submit" }, "Publish"),
      ),
      h(
        "details",
        {},
        h("summary", {}, "Properties"),
        field("Content type", contentType),
        field("Response topic", responseTopic),
        field("Correlation data", correlation),
        field("Expires after seconds", expiry),
        field("User properties, one a line", user),
      ),
    ),
  );
}

/**
 * @param {Client} client
 * @param {Messages} messages
 */
function subscriptions(client, messages) {
  /** @type {Set<string>} */
  const filters = new Set();
  const listener = (/** @type {import("../mqtt/client.js").Message} */ message) => messages.add(message);
  const filter = h("input", { required: true, placeholder: "hall/#", spellcheck: "false", autocomplete: "off" });
  const qos = h("select", {}, h("option", { value: "0" }, "0"), h("option", { value: "1" }, "1"));
  const list = h("ul", { class: "list" });
  const draw = () => {
    const items = [...filters].map((each) =>
      h(
        "li",
        { class: "row spread" },
        h("span", { class: "mono break" }, each),
        h(
          "button",
          { type: "button", "aria-label": `Unsubscribe from ${each}`, onclick: () => remove(each) },
          "Unsubscribe",
        ),
      ),
    );
    put(
      list,
      items.length > 0
        ? items
        : h(
            "li",
            { class: "soft" },
            "There is no subscription yet. + stands for one level of a topic, # for all that follow.",
          ),
    );
  };
  const remove = async (/** @type {string} */ each) => {
    try {
      await client.unsubscribe(each, listener);
      filters.delete(each);
    } catch (error) {
      noteFailure(error);
    }
    draw();
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const granted = await client.subscribe(filter.value.trim(), Number(qos.value), listener);
      filters.add(filter.value.trim());
      note(`Subscribed with QoS ${granted}.`);
    } catch (error) {
      noteFailure(error);
    }
    draw();
  };
  draw();
  const element = h(
    "section",
    { class: "panel", "aria-label": "Subscribe" },
    h("h2", {}, "Subscribe"),
    h(
      "form",
      { class: "form", onsubmit: submit },
      field("Topic filter", filter, "wide"),
      field("QoS", qos),
      h("button", { type: "submit" }, "Subscribe"),
    ),
    list,
  );
  const stop = () => filters.forEach((each) => void client.unsubscribe(each, listener).catch(() => {}));
  return { element, stop };
}
