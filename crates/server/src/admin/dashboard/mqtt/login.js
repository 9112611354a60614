// The one MQTT connection of the page, and the form that makes it. What is typed in is kept in memory only, until the tab is closed or loads anew.

import { empty, failure, field, h, put } from "../dom.js";
import { Client } from "./client.js";

/** @typedef {import("../live.js").Live} Live */

/** @type {Client | null} */
let client = null;
/** Why there is none any more. @type {unknown} */
let lost = null;
/** @type {Set<() => void>} */
const watching = new Set();
/** What was typed in last, but for the password. */
const typed = { url: "", clientId: `dashboard-${Math.random().toString(16).slice(2, 10)}`, userName: "" };

function changed() {
  watching.forEach((watch) => watch());
}

/**
 * Where this node takes WebSockets, as far as it is known.
 * @param {Live} live
 */
function address(live) {
  const listeners = /** @type {any[]} */ (live.node?.listeners ?? []);
  const secure = location.protocol === "https:";
  const order = secure ? ["wss", "ws"] : ["ws", "wss"];
  const found = order.flatMap((transport) => listeners.filter((listener) => listener.transport === transport))[0];
  if (!found) return "";
  const port = found.address.split(":").at(-1);
  const host = found.address.slice(0, -port.length - 1);
  const named = host === "0.0.0.0" || host === "[::]" ? location.hostname : host;
  return `${found.transport}://${named}:${port}${found.path}`;
}

/**
 * A panel with the form, or with the connection that is there; `use` is called for each connection, and with null at its end.
 * @param {Live} live
 * @param {string} what what the connection is for
 * @param {(client: Client | null) => void} use
 */
export function login(live, what, use) {
  const element = h("div");
  /** @type {Client | null | undefined} */
  let used;
  const draw = () => {
    put(element, client ? connected(client) : form(live, what));
    if (used !== client) use(client);
    used = client;
  };
  watching.add(draw);
  draw();
  const fill = () => {
    const url = /** @type {HTMLInputElement | null} */ (element.querySelector("input[name=url]"));
    if (url && url.value === "") url.value = address(live);
  };
  return { element, update: fill, close: () => void watching.delete(draw) };
}

/** @param {Client} current */
function connected(current) {
  return h(
    "section",
    { class: "panel row spread", "aria-label": "Connection" },
    h(
      "span",
      { class: "break" },
      "Connected to ",
      h("span", { class: "mono" }, current.login.url),
      " as ",
      h("span", { class: "mono" }, current.login.userName || current.clientId),
    ),
    h("button", { type: "button", onclick: () => current.close() }, "Disconnect"),
  );
}

/**
 * @param {Live} live
 * @param {string} what
 */
function form(live, what) {
  const url = h("input", {
    name: "url",
    required: true,
    value: typed.url || address(live),
    placeholder: "ws://127.0.0.1:8083/mqtt",
    spellcheck: "false",
    autocomplete: "off",
  });
  const clientId = h("input", {
    name: "client",
    required: true,
    value: typed.clientId,
    spellcheck: "false",
    autocomplete: "off",
  });
  const userName = h("input", { name: "user", value: typed.userName, autocomplete: "off", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "off" });
  const said = h("div", {}, lost ? failure(lost) : null);
  const button = h("button", { class: "main-action", type: "submit" }, "Connect");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    Object.assign(typed, { url: url.value.trim(), clientId: clientId.value.trim(), userName: userName.value });
    button.disabled = true;
    put(said, h("p", { class: "soft", role: "status" }, "Connecting …"));
    try {
      const made = await Client.connect({ ...typed, password: password.value });
      made.onClose = (why) => {
        [client, lost] = [null, why];
        changed();
      };
      [client, lost] = [made, null];
      changed();
    } catch (error) {
      button.disabled = false;
      put(said, failure(error));
    }
  };
  const teaches = `${what} goes over MQTT with your own login, so you may do here what that login may do. The page needs a listener with `;
  return h(
    "section",
    { class: "panel", "aria-label": "Connection" },
    h("p", { class: "soft" }, teaches, h("code", {}, "[listeners.websocket]"), "; the password is kept nowhere."),
    h(
      "form",
      { class: "form", onsubmit: submit },
      field("WebSocket listener", url, "wide"),
      field("Client id", clientId),
      field("User name", userName),
      field("Password", password),
      button,
    ),
    said,
  );
}

/** What stands where a page has nothing without a connection. @param {string} what */
export function withoutConnection(what) {
  return h("div", { class: "panel" }, empty(what, h("p", {}, "Connect above first.")));
}
