// Lists that the server has in pages: it searches them, and a page names the next one.

import * as api from "./api.js";
import { empty, failure, field, h, put } from "./dom.js";
import { number } from "./format.js";
import { body, keepFocus } from "./table.js";

/** After the last key that is typed, so long until it is asked. */
const TYPING_MS = 300;
const PAGE = 50;

/**
 * @template Row
 * @typedef {object} Options
 * @property {string} path
 * @property {string} rows what the answer calls them
 * @property {string} caption
 * @property {import("./table.js").Column<Row>[]} columns
 * @property {string} search the name of the query
 * @property {string} label of the field for it
 * @property {string} [initial]
 * @property {HTMLElement} [filter] further controls, whose changes call `ask`
 * @property {() => Record<string, string | undefined>} [query] what they say
 * @property {HTMLElement} nothing
 */

/**
 * @template Row
 */
export class Paged {
  /** @param {Options<Row>} options */
  constructor(options) {
    this.options = options;
    /** Where each page that was seen begins. @type {(string | undefined)[]} */
    this.begins = [undefined];
    this.asked = 0;
    this.drawn = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    const words = h("input", {
      type: "search",
      value: options.initial ?? "",
      autocomplete: "off",
      spellcheck: "false",
    });
    words.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.restart(), TYPING_MS);
    };
    this.words = words;
    this.tbody = h("tbody");
    const heads = options.columns.map(({ name, isNumber }) =>
      h("th", { scope: "col", class: isNumber ? "number" : "" }, name),
    );
    this.table = h(
      "table",
      { class: "cards" },
      h("caption", {}, options.caption),
      h("thead", {}, h("tr", {}, heads)),
      this.tbody,
    );
    this.none = h("div");
    this.said = h("span", { class: "said", role: "status" });
    this.back = h("button", { type: "button", onclick: () => this.#turn(-1) }, "Previous");
    this.on = h("button", { type: "button", onclick: () => this.#turn(1) }, "Next");
    const again = h("button", { type: "button", onclick: () => void this.ask() }, "Load again");
    const tools = h(
      "div",
      { class: "tools", role: "search" },
      field(options.label, words, "grow"),
      options.filter,
      again,
    );
    this.element = h(
      "section",
      { class: "panel" },
      tools,
      this.table,
      this.none,
      h("div", { class: "pager" }, this.said, this.back, this.on),
    );
    void this.ask();
  }

  /** From the first page on. */
  restart() {
    this.begins = [undefined];
    void this.ask();
  }

  /** @param {1 | -1} way */
  #turn(way) {
    if (way === 1) this.begins.push(this.next);
    else this.begins.pop();
    void this.ask();
  }

  /** @type {string | undefined} */
  next = undefined;

  /**
   * The server looks through so many at once; what is searched for may come on a later page.
   * @param {number} total
   * @param {HTMLElement} nothing
   */
  #whyNone(total, nothing) {
    if (this.next) return empty("Nothing so far", h("p", {}, "Not all were looked through yet: go on with Next."));
    if (total === 0) return nothing;
    return empty("Nothing fits", h("p", {}, "Take something away from the search, or clear it."));
  }

  async ask() {
    const { path, rows, search, query, columns, nothing } = this.options;
    const own = ++this.asked;
    try {
      const answer = await api.get(path, {
        [search]: this.words.value.trim(),
        ...query?.(),
        limit: PAGE,
        after: this.begins.at(-1),
      });
      if (own !== this.asked) return;
      const found = /** @type {Row[]} */ (answer[rows]);
      this.next = answer.next ?? undefined;
      const drawn = JSON.stringify(found);
      if (drawn !== this.drawn) keepFocus(this.tbody, () => put(this.tbody, body(columns, found)));
      this.drawn = drawn;
      this.table.hidden = found.length === 0;
      put(this.none, found.length > 0 ? null : this.#whyNone(answer.total, nothing));
      const page = this.begins.length > 1 || this.next ? `Page ${this.begins.length}. ` : "";
      this.said.textContent = `${page}${number(answer.total)} in all at this node`;
    } catch (error) {
      if (own !== this.asked) return;
      this.next = undefined;
      this.table.hidden = true;
      this.drawn = "";
      put(this.none, missing(error) ?? failure(error, () => void this.ask()));
      this.said.textContent = "";
    }
    this.back.disabled = this.begins.length === 1;
    this.on.disabled = this.next === undefined;
    this.back.hidden = this.on.hidden = this.back.disabled && this.on.disabled;
  }
}

/** @param {unknown} error */
function missing(error) {
  const isMissing = error instanceof api.ApiError && error.status === 404;
  return isMissing
    ? empty(
        "This server does not have this list",
        h("p", {}, "It is older than this page. Load the page again, or update the server."),
      )
    : null;
}
