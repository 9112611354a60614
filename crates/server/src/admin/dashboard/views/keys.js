// Keys of the state store: found by a glob, looked at, written and deleted.

import { ask, note, noteFailure } from "../dialog.js";
import { empty, failure, field, h, put } from "../dom.js";
import { login, withoutConnection } from "../mqtt/login.js";
import { Store } from "../mqtt/store.js";
import { detail } from "./key.js";

/** @typedef {import("../live.js").Live} Live */

/** So many keys are listed; who looks for others takes a narrower glob. */
const LISTED_MAX = 5_000;
const SHOWN = 200;

/**
 * @param {Live} live
 * @param {string} argument the key that is open
 */
export function keys(live, argument) {
  /** @type {Store | null} */
  let store = null;
  const place = h("div");
  const connection = login(live, "The state store", async (client) => {
    store = null;
    put(place, withoutConnection("Keys are shown here"));
    if (!client) return;
    try {
      store = await Store.open(client);
      put(place, browser(store, argument));
    } catch (error) {
      put(place, failure(error));
    }
  });
  const element = h(
    "div",
    {},
    h("h1", {}, "Keys"),
    h(
      "p",
      { class: "lead" },
      "What the state store holds, of the whole cluster. You see the keys that your login may read.",
    ),
    connection.element,
    place,
  );
  const leave = () => {
    connection.close();
    if (store) void store.client.unsubscribe(store.topic, store.listener).catch(() => {});
  };
  return { element, update: connection.update, close: leave };
}

/**
 * @param {Store} store
 * @param {string} chosen
 */
function browser(store, chosen) {
  const pattern = h("input", { type: "search", value: "*", spellcheck: "false", autocomplete: "off" });
  const list = h("ul", { class: "list", "aria-label": "Keys" });
  const said = h("p", { class: "soft small", role: "status" });
  const more = h("button", { type: "button", hidden: true }, "Show more");
  const shown = h(
    "section",
    { class: "panel", "aria-label": "The key" },
    empty(
      "No key is chosen",
      h("p", {}, "Choose one in the list to see its value, version, fencing token and expiry."),
    ),
  );
  /** @type {string[]} */
  let found = [];
  let scans = 0;

  const open = async (/** @type {string} */ key) => {
    chosen = key;
    history.replaceState(null, "", `#/keys/${encodeURIComponent(key)}`);
    for (const button of list.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.textContent === key));
    try {
      put(shown, detail(store, key, await store.get(key), { reload: () => void open(key), gone: () => void search() }));
    } catch (error) {
      put(
        shown,
        h("h2", {}, key),
        failure(error, () => void open(key)),
      );
    }
  };
  const draw = (/** @type {number} */ count) => {
    put(
      list,
      found
        .slice(0, count)
        .map((key) =>
          h(
            "li",
            {},
            h("button", { type: "button", "aria-pressed": String(key === chosen), onclick: () => open(key) }, key),
          ),
        ),
    );
    more.hidden = found.length <= count;
    more.onclick = () => draw(count + SHOWN);
    if (found.length === 0)
      put(
        list,
        h(
          "li",
          {},
          empty(
            "No key fits",
            h(
              "p",
              {},
              "* stands for any text, ? for one character, [a-z] for one of a class. The first key is made with New key, or with ",
              h("code", {}, "statehold set door open"),
              ".",
            ),
          ),
        ),
      );
  };
  const search = async () => {
    const own = ++scans;
    said.textContent = "Scanning …";
    found = [];
    try {
      let token = /** @type {Uint8Array | null | undefined} */ (undefined);
      do {
        const page = await store.scan(pattern.value || "*", token ?? undefined);
        if (own !== scans) return;
        found.push(...page.keys);
        token = page.token;
        said.textContent = `${found.length} keys so far …`;
      } while (token && found.length < LISTED_MAX);
      found.sort();
      said.textContent = token
        ? `The first ${found.length} keys. Narrow the glob to see others.`
        : `${found.length} keys`;
      draw(SHOWN);
    } catch (error) {
      said.textContent = "";
      put(list, h("li", {}, failure(error, search)));
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void search();
  };
  const create = async () => {
    const key = await newKey(store);
    if (key === null) return;
    await search();
    await open(key);
  };
  void search();
  if (chosen) void open(chosen);
  const tools = h(
    "form",
    { class: "tools", onsubmit: submit, role: "search" },
    field("Glob", pattern, "grow"),
    h("button", { type: "submit" }, "Find"),
    h("button", { type: "button", onclick: create }, "New key"),
  );
  return h(
    "div",
    { class: "split" },
    h("section", { class: "panel", "aria-label": "Found" }, tools, said, list, more),
    shown,
  );
}

/**
 * Asks for a key that does not exist yet; resolves to it when it does.
 * @param {Store} store
 */
async function newKey(store) {
  const key = h("input", { required: true, spellcheck: "false", autocomplete: "off" });
  const value = h("textarea", { rows: 4, spellcheck: "false" });
  const seconds = h("input", { type: "number", min: "0.001", step: "any" });
  const content = [field("Key", key), field("Value", value), field("Expires after seconds (empty: never)", seconds)];
  const check = () => (key.value === "" ? "A key has at least one byte." : null);
  if (!(await ask("New key", content, { act: "Create", check }))) return null;
  try {
    const expiresIn = seconds.value === "" ? undefined : Math.max(1, Math.round(Number(seconds.value) * 1_000));
    const isDone = await store.set(key.value, new TextEncoder().encode(value.value), {
      isNew: true,
      ...(expiresIn && { expiresIn }),
    });
    note(isDone ? `${key.value} is created.` : `${key.value} exists already; it is shown.`, isDone ? "" : "bad");
    return key.value;
  } catch (error) {
    noteFailure(error);
    return null;
  }
}
