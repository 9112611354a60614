// Tables with search, order and pages. One of them keeps what it is doing when its rows come anew.

import { empty, field, h, put } from "./dom.js";

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} name
 * @property {(row: Row) => import("./dom.js").Child} show
 * @property {(row: Row) => string | number} [by] what it is ordered and searched by
 * @property {boolean} [isNumber]
 */

/**
 * @template Row
 * @param {Column<Row>[]} columns
 * @param {Row[]} rows
 */
export function body(columns, rows) {
  return rows.map((row) =>
    h(
      "tr",
      {},
      columns.map((column) =>
        h("td", { class: column.isNumber ? "number" : "", "data-label": column.name }, h("div", {}, column.show(row))),
      ),
    ),
  );
}

const PAGE = 25;

/**
 * All rows are there; they are searched, ordered and paged here.
 * @template Row
 */
export class Table {
  /**
   * @param {string} caption
   * @param {Column<Row>[]} columns
   * @param {{ search?: string, nothing: HTMLElement }} options `search`: the label of its field
   */
  constructor(caption, columns, { search, nothing }) {
    this.columns = columns;
    this.nothing = nothing;
    /** @type {Row[]} */
    this.rows = [];
    this.page = 0;
    this.sorted = -1;
    this.isDown = false;
    this.words = h("input", { type: "search", oninput: () => this.#turn(0), autocomplete: "off" });
    this.heads = columns.map((column, index) => this.#head(column, index));
    this.tbody = h("tbody");
    this.table = h(
      "table",
      { class: "cards" },
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, this.heads)),
      this.tbody,
    );
    this.pager = h("div", { class: "pager" });
    this.said = h("span", { class: "said" });
    this.back = h("button", { type: "button", onclick: () => this.#turn(this.page - 1) }, "Previous");
    this.on = h("button", { type: "button", onclick: () => this.#turn(this.page + 1) }, "Next");
    put(this.pager, this.said, this.back, this.on);
    const tools = search && h("div", { class: "tools" }, field(search, this.words, "grow"));
    this.none = h("div");
    this.element = h("div", {}, tools, this.table, this.none, this.pager);
    /** What is drawn, so that nothing is drawn twice: who has the focus keeps it. */
    this.drawn = "";
  }

  /**
   * @param {Column<Row>} column
   * @param {number} index
   */
  #head(column, index) {
    const by = column.by;
    const order = () => {
      this.isDown = this.sorted === index ? !this.isDown : Boolean(column.isNumber);
      this.sorted = index;
      this.heads.forEach((head, its) => {
        if (its === index) head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.#turn(0);
    };
    const name = by ? h("button", { type: "button", onclick: order }, column.name) : column.name;
    return h("th", { scope: "col", class: column.isNumber ? "number" : "" }, name);
  }

  /** @param {number} page */
  #turn(page) {
    this.page = page;
    this.#draw();
  }

  /** @param {Row[]} rows */
  show(rows) {
    this.rows = rows;
    this.#draw();
  }

  #found() {
    const words = this.words.value.trim().toLowerCase();
    const keys = this.columns.flatMap(({ by }) => (by ? [by] : []));
    const found = this.rows.filter(
      (row) => words === "" || keys.some((key) => String(key(row)).toLowerCase().includes(words)),
    );
    const by = this.columns[this.sorted]?.by;
    if (!by) return found;
    const order = (/** @type {Row} */ a, /** @type {Row} */ b) => compare(by(a), by(b));
    return found.sort((a, b) => (this.isDown ? order(b, a) : order(a, b)));
  }

  #draw() {
    const found = this.#found();
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    this.page = Math.max(0, Math.min(this.page, pages - 1));
    const shown = found.slice(this.page * PAGE, (this.page + 1) * PAGE);
    const drawn = JSON.stringify([shown, this.page, found.length, this.rows.length]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    keepFocus(this.tbody, () => put(this.tbody, body(this.columns, shown)));
    this.table.hidden = this.rows.length === 0;
    const nobody = empty("Nothing fits the search", "Take something away from it, or clear it.");
    put(this.none, this.rows.length === 0 ? this.nothing : found.length === 0 ? nobody : null);
    this.pager.hidden = pages === 1;
    this.said.textContent = `${this.page * PAGE + 1} to ${this.page * PAGE + shown.length} of ${found.length}`;
    this.back.disabled = this.page === 0;
    this.on.disabled = this.page === pages - 1;
  }
}

/**
 * @param {string | number} a
 * @param {string | number} b
 */
function compare(a, b) {
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

/**
 * Who had the focus in what is drawn anew has it again, by its place.
 * @param {HTMLElement} within
 * @param {() => void} draw
 */
export function keepFocus(within, draw) {
  const places = () => /** @type {HTMLElement[]} */ ([...within.querySelectorAll("button, a, input")]);
  const place = places().indexOf(/** @type {HTMLElement} */ (document.activeElement));
  draw();
  if (place >= 0) places()[place]?.focus();
}
