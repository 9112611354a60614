// One key: its value in three forms, and what may be done with it.

import { ask, note, noteFailure } from "../dialog.js";
import { empty, facts, field, h, put } from "../dom.js";
import { bytes, bytesOf, digitsOf, hex, json, moment, seconds, text } from "../format.js";

/** @typedef {import("../mqtt/store.js").Store} Store */
/** @typedef {import("../mqtt/store.js").Entry} Entry */
/** @typedef {{ reload: () => void, gone: () => void }} After */

/**
 * @param {Store} store
 * @param {string} key
 * @param {Entry | null} entry
 * @param {After} after
 */
export function detail(store, key, entry, after) {
  const again = h("button", { type: "button", onclick: after.reload }, "Load again");
  if (!entry)
    return h(
      "div",
      {},
      h("h2", { class: "break mono" }, key),
      empty("This key does not exist", h("p", {}, "It was deleted, has expired, or was never there.")),
      again,
    );
  const wall = Number(entry.version.split(":")[0]);
  const pairs = /** @type {[string, import("../dom.js").Child][]} */ ([
    ["Size", bytes(entry.value.length)],
    ["Version", h("span", { class: "mono" }, entry.version)],
    ["Written", moment(wall)],
    [
      "Fencing token",
      entry.fencing ? h("span", { class: "mono" }, entry.fencing) : entry.fencing === "" ? "none" : UNKNOWN,
    ],
    ["Expires", expiryOf(entry)],
  ]);
  return h(
    "div",
    {},
    h("h2", { class: "break mono" }, key),
    facts(pairs),
    forms(entry.value),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => edit(store, key, entry, after) }, "Edit"),
      h("button", { type: "button", class: "danger", onclick: () => remove(store, key, entry, after) }, "Delete"),
      again,
    ),
  );
}

const UNKNOWN = "this server does not say";

/** @param {Entry} entry */
function expiryOf({ expiresAt }) {
  if (expiresAt === null) return UNKNOWN;
  return expiresAt === "never"
    ? "never"
    : `${moment(expiresAt)} (in ${seconds(Math.max(0, (expiresAt - Date.now()) / 1_000))})`;
}

/**
 * A value as text, JSON or hexadecimal digits, whichever it can be.
 * @param {Uint8Array} value
 */
export function forms(value) {
  const all = /** @type {[string, string | null][]} */ ([
    ["JSON", json(value)],
    ["Text", text(value)],
    ["Hex", hex(value)],
  ]);
  const view = h("pre", { class: "view", tabindex: "0", "aria-label": "Value" });
  const there = all.filter(([, said]) => said !== null);
  // A bare number or word is JSON as well, and is read as what it is.
  const isStructure = /^\s*[[{]/.test(text(value) ?? "");
  const begin = there.find(([name]) => name === "Text" && !isStructure) ?? there[0];
  const buttons = there.map(([name, said]) => {
    const choose = () => {
      view.textContent = said === "" ? "(empty)" : said;
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === own)));
    };
    const own = h("button", { type: "button", onclick: choose }, name);
    return own;
  });
  if (begin) buttons[there.indexOf(begin)]?.click();
  return h("div", {}, h("div", { class: "row", role: "group", "aria-label": "Shown as" }, buttons), view);
}

/**
 * Writes another value if nobody has written one since it was shown.
 * @param {Store} store
 * @param {string} key
 * @param {Entry} entry
 * @param {After} after
 */
async function edit(store, key, entry, after) {
  const said = text(entry.value);
  const form = h(
    "select",
    {},
    said !== null && h("option", { value: "text" }, "Text"),
    h("option", { value: "hex" }, "Hex"),
  );
  const value = h("textarea", { rows: 8, spellcheck: "false", value: said ?? digitsOf(entry.value) });
  const expiry = h(
    "select",
    {},
    typeof entry.expiresAt === "number" && h("option", { value: "keep" }, "Keep its expiry"),
    h("option", { value: "never" }, entry.expiresAt === "never" ? "Never expires, as now" : "Never expires"),
    h("option", { value: "after" }, "Expires after …"),
  );
  const after_s = h("input", { type: "number", min: "0.001", step: "any", value: "60" });
  const after_field = field("Seconds", after_s);
  after_field.hidden = true;
  expiry.onchange = () => void (after_field.hidden = expiry.value !== "after");
  const token = h("input", { value: "", placeholder: entry.fencing ?? "", spellcheck: "false", autocomplete: "off" });
  const typed = () => (form.value === "hex" ? bytesOf(value.value) : new TextEncoder().encode(value.value));
  form.onchange = () => {
    const now = form.value === "hex" ? new TextEncoder().encode(value.value) : bytesOf(value.value);
    if (now) value.value = form.value === "hex" ? digitsOf(now) : (text(now) ?? "");
  };
  const content = [
    field("Form", form),
    field("Value", value),
    field("Expiry", expiry),
    after_field,
    entry.fencing !== "" && field("Fencing token (the key is held by one; a write needs it or a newer one)", token),
    h("p", { class: "soft small" }, "It is written only if the key has still the value that is shown."),
  ];
  const check = () => (typed() === null ? "In this form a value is pairs of the digits 0 to 9 and a to f." : null);
  if (!(await ask(`Edit ${key}`, content, { act: "Write", check }))) return;
  const expiresIn =
    expiry.value === "after"
      ? Math.max(1, Math.round(Number(after_s.value) * 1_000))
      : expiry.value === "keep" && typeof entry.expiresAt === "number"
        ? Math.max(1, entry.expiresAt - Date.now())
        : undefined;
  try {
    const isDone = await store.set(key, typed() ?? new Uint8Array(), {
      instead: entry.value,
      ...(expiresIn && { expiresIn }),
      ...(token.value && { fencing: token.value.trim() }),
    });
    note(
      isDone ? `${key} is written.` : `${key} was changed by somebody else. It was not written; this is its value now.`,
      isDone ? "" : "bad",
    );
    after.reload();
  } catch (error) {
    noteFailure(error);
  }
}

/**
 * @param {Store} store
 * @param {string} key
 * @param {Entry} entry
 * @param {After} after
 */
async function remove(store, key, entry, after) {
  const token = h("input", { placeholder: entry.fencing ?? "", spellcheck: "false", autocomplete: "off" });
  const why = h("p", {});
  put(
    why,
    "The key ",
    h("strong", { class: "mono break" }, key),
    " and its value are gone then, in the whole cluster. Whoever watches it is told. If it is a lock, somebody else can take it at once.",
  );
  const content = [
    why,
    entry.fencing !== "" && field("Fencing token (the key is held by one; a deletion needs it or a newer one)", token),
  ];
  if (!(await ask("Delete this key?", content, { act: "Delete", isDanger: true }))) return;
  try {
    const isDone = await store.delete(key, entry.value, token.value.trim() || undefined);
    note(
      isDone ? `${key} is deleted.` : `${key} was changed or deleted by somebody else; it was left as it is.`,
      isDone ? "" : "bad",
    );
    after.gone();
    after.reload();
  } catch (error) {
    noteFailure(error);
  }
}
