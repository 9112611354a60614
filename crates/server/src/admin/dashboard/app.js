// The shell: pages by the address's fragment, the token, colours, and the round of questions that keeps pages current.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { badge, byId, failure, field, h, put } from "./dom.js";
import { seconds } from "./format.js";
import { Live } from "./live.js";
import { clientPage, clients } from "./views/clients.js";
import { consolePage } from "./views/console.js";
import { groups } from "./views/groups.js";
import { keys } from "./views/keys.js";
import { nodes } from "./views/nodes.js";
import { overview } from "./views/overview.js";
import { queues } from "./views/queues.js";
import { retained } from "./views/retained.js";
import { rings } from "./views/rings.js";
import { subscriptions } from "./views/subscriptions.js";
import { tap } from "./views/tap.js";

/** @typedef {{ element: HTMLElement, update?: () => void, close?: () => void }} Opened */
/** @typedef {(live: Live, argument: string) => Opened} View */

/** @type {[string, [string, string, View][]][]} */
const PAGES = [
  [
    "Cluster",
    [
      ["overview", "Overview", overview],
      ["nodes", "Nodes", nodes],
      ["groups", "Groups", groups],
      ["rings", "Ring", rings],
    ],
  ],
  [
    "MQTT",
    [
      ["clients", "Clients", clients],
      ["subscriptions", "Subscriptions", subscriptions],
      ["queues", "Queues", queues],
      ["retained", "Retained", retained],
    ],
  ],
  [
    "Over WebSocket",
    [
      ["keys", "Keys", keys],
      ["tap", "Live tap", tap],
      ["console", "Console", consolePage],
    ],
  ],
];
const VIEWS = new Map(PAGES.flatMap(([, pages]) => pages).map(([id, title, view]) => [id, { title, view }]));
VIEWS.set("client", { title: "Client", view: clientPage });

const live = new Live(() => {
  showHead();
  opened?.update?.();
});
/** @type {Opened | undefined} */
let opened;

function navigate() {
  const [id = "", ...rest] = location.hash.replace(/^#\//, "").split("/");
  const page = VIEWS.get(id);
  if (!page) {
    location.replace("#/overview");
    return;
  }
  opened?.close?.();
  opened = page.view(live, decodeURIComponent(rest.join("/")));
  document.title = `${page.title} – Statehold`;
  const main = byId("main");
  put(main, opened.element);
  opened.update?.();
  for (const link of byId("nav").querySelectorAll("a")) {
    const isHere = link.hash === `#/${id}` || (id === "client" && link.hash === "#/clients");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showMenu(false);
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

function showHead() {
  const uptime = live.history.value("statehold_start_time_seconds");
  const [build] = live.history.samples("statehold_build_info");
  const version = live.node?.version ?? build?.labels.version;
  const own = live.cluster ? live.addressOf(live.cluster.node) : location.host;
  const state = live.error
    ? unheard(live.error)
    : live.notReady.length > 0
      ? badge("not ready", "warn")
      : badge("ready", "good");
  const since = uptime ? `up ${seconds(Date.now() / 1_000 - uptime)}` : "";
  put(
    byId("node"),
    state,
    h("span", { class: "mono" }, own),
    h("span", {}, [version, since].filter(Boolean).join(" · ")),
  );
}

/** @param {unknown} error */
function unheard(error) {
  const isRefused = error instanceof api.ApiError && error.status === 401;
  return isRefused ? badge("needs a token", "warn") : badge("not reached", "bad");
}

/** @param {boolean} isOpen */
function showMenu(isOpen) {
  byId("nav").classList.toggle("is-open", isOpen);
  byId("menu").setAttribute("aria-expanded", String(isOpen));
}

let isAskingForToken = false;
/** Somebody would rather not say one: the button asks again, nothing else does. */
let isDeclined = false;

/** @param {string} why */
async function askForToken(why) {
  if (isAskingForToken) return;
  isAskingForToken = true;
  const input = h("input", { type: "password", autocomplete: "off", value: api.token(), spellcheck: "false" });
  const content = [
    h("p", {}, why),
    field("Token", input),
    h(
      "p",
      { class: "soft small" },
      "It is kept until this tab is closed. The scope read is enough to look; to disconnect clients or delete messages it has to be write. ",
      h("code", {}, "statehold admin-token"),
      " makes one.",
    ),
  ];
  if (await ask("Token of the admin port", content, { act: "Use it" })) {
    api.setToken(input.value.trim());
    isDeclined = false;
    navigate();
    void live.start();
  } else {
    isDeclined = true;
  }
  isAskingForToken = false;
}

/** @param {string} theme */
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("statehold-theme", theme);
}

function start() {
  const lists = PAGES.map(([title, pages]) => [
    h("li", {}, h("h2", {}, title)),
    ...pages.map(([id, name]) => h("li", {}, h("a", { href: `#/${id}` }, name))),
  ]);
  put(byId("nav"), h("ul", {}, lists.flat()));
  // A link to the page that is open goes there all the same, and closes the menu.
  byId("nav").addEventListener("click", ({ target }) => {
    if (target instanceof HTMLAnchorElement && target.hash === location.hash) navigate();
  });
  const theme = /** @type {HTMLSelectElement} */ (byId("theme"));
  theme.value = localStorage.getItem("statehold-theme") ?? "auto";
  setTheme(theme.value);
  theme.addEventListener("change", () => setTheme(theme.value));
  byId("menu").addEventListener("click", () => showMenu(!byId("nav").classList.contains("is-open")));
  byId("token").addEventListener("click", () => askForToken("What this server asks for, if admin.tokens is set."));
  // The fragment says which page is open; this link goes past it.
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  api.whenUnauthorized(() => {
    if (!isDeclined)
      void askForToken(api.token() ? "The token is not known to this server." : "This server asks for a token.");
  });
  addEventListener("hashchange", navigate);
  document.addEventListener("visibilitychange", () => document.hidden || live.start());
  addEventListener("unhandledrejection", ({ reason }) => put(byId("main"), failure(reason, navigate)));
  addEventListener("error", ({ error }) => error && put(byId("main"), failure(error, navigate)));
  navigate();
  void live.start();
}

start();
