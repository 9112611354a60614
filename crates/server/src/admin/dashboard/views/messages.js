// A list of messages as they come, the newest first, of which only so many are kept.

import { badge, empty, h, put } from "../dom.js";
import { bytes, clock, hex, json, text } from "../format.js";

/** @typedef {import("../mqtt/client.js").Message} Message */

const KEPT_MAX = 200;
const TEXT_MAX = 4_096;
/** More than these are not drawn in one go; they are counted. */
const DRAWN_PER_TURN_MAX = 50;

export class Messages {
  /** @param {HTMLElement} nothing what is shown before there is one */
  constructor(nothing) {
    this.count = 0;
    this.skipped = 0;
    this.isPaused = false;
    /** @type {{ at: Date, message: Message }[]} */
    this.coming = [];
    this.nothing = nothing;
    this.list = h("ol", { class: "messages", reversed: true });
    this.said = h("span", { class: "soft small", role: "status" });
    this.empty = h("div", {}, nothing);
    const pause = h("button", { type: "button", "aria-pressed": "false" }, "Pause");
    pause.onclick = () => {
      this.isPaused = !this.isPaused;
      pause.setAttribute("aria-pressed", String(this.isPaused));
      pause.textContent = this.isPaused ? "Go on" : "Pause";
      this.#draw();
    };
    const clear = h("button", { type: "button", onclick: () => this.clear() }, "Clear");
    this.element = h(
      "section",
      { class: "panel", "aria-label": "Messages" },
      h("div", { class: "row spread" }, this.said, h("span", { class: "row" }, pause, clear)),
      this.empty,
      this.list,
    );
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  clear() {
    [this.count, this.skipped, this.coming] = [0, 0, []];
    put(this.list);
    put(this.empty, this.nothing);
    this.said.textContent = "";
  }

  /** @param {Message} message */
  add(message) {
    this.count += 1;
    this.coming.push({ at: new Date(), message });
    if (this.coming.length > KEPT_MAX) {
      this.coming.shift();
      this.skipped += 1;
    }
    // Many may come at once: they are drawn together.
    this.timer ??= setTimeout(() => this.#draw(), 100);
  }

  #draw() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const words = [
      `${this.count} messages`,
      this.skipped && `${this.skipped} came too fast to be shown`,
      this.isPaused && `paused, ${this.coming.length} wait`,
    ];
    this.said.textContent = words.filter(Boolean).join(", ");
    if (this.isPaused || this.coming.length === 0) return;
    const drawn = this.coming.splice(0, DRAWN_PER_TURN_MAX);
    put(this.empty);
    for (const { at, message } of drawn) this.list.prepend(entry(at, message));
    while (this.list.children.length > KEPT_MAX) this.list.lastElementChild?.remove();
    if (this.coming.length > 0) this.timer = setTimeout(() => this.#draw(), 100);
  }
}

/**
 * @param {Date} at
 * @param {Message} message
 */
function entry(at, { topic, payload, qos, isRetained, properties }) {
  const said = json(payload) ?? text(payload);
  const shown = said ?? hex(payload.subarray(0, 256));
  const cut = shown.length > TEXT_MAX ? `${shown.slice(0, TEXT_MAX)}\n… cut here` : shown;
  const user = (properties.user ?? []).map(([name, value]) => `${name}: ${value}`);
  const more = [
    properties.contentType && `content type ${properties.contentType}`,
    properties.responseTopic && `answer to ${properties.responseTopic}`,
    ...user,
  ];
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row" },
      h("span", { class: "soft small" }, clock(at)),
      h("span", { class: "topic" }, topic),
      badge(`QoS ${qos}`),
      isRetained && badge("retained", "warn"),
      h("span", { class: "soft small" }, bytes(payload.length)),
    ),
    h("pre", {}, payload.length === 0 ? "(empty)" : cut),
    h("div", { class: "soft small break" }, more.filter(Boolean).join(" · ")),
  );
}

export const nothingYet = () =>
  empty(
    "No message yet",
    h("p", {}, "They are shown here as they are published; those that are retained come at once."),
  );
