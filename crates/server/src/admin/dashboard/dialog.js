// Questions that hold up everything else, and notes that hold up nothing.

import { byId, h } from "./dom.js";

/**
 * Shows a dialog until it is closed; resolves to whether it was agreed to.
 * @param {string} title
 * @param {import("./dom.js").Child[]} content
 * @param {{ act: string, isDanger?: boolean, check?: () => string | null }} options `check`: why it cannot be done yet
 * @returns {Promise<boolean>}
 */
export function ask(title, content, { act, isDanger = false, check = () => null }) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const why = h("p", { class: "small", role: "alert" });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    content,
    why,
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
      h("button", { type: "submit", class: isDanger ? "danger" : "main-action" }, act),
    ),
  );
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const reason = check();
      if (reason === null) dialog.close("agreed");
      else why.textContent = reason;
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus();
      resolve(dialog.returnValue === "agreed");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const SHOWN_MS = 6_000;

/**
 * Says what came of something.
 * @param {string} said
 * @param {"" | "bad"} [kind]
 */
export function note(said, kind = "") {
  const element = h("div", { class: `note ${kind}` }, said);
  byId("notes").append(element);
  setTimeout(() => element.remove(), SHOWN_MS);
}

/**
 * Says that something failed, and what to do next.
 * @param {unknown} error
 */
export function noteFailure(error) {
  const said = error instanceof Error ? error.message : String(error);
  const next = /** @type {{ next?: string }} */ (error)?.next;
  note(next ? `${said} ${next}` : said, "bad");
}
