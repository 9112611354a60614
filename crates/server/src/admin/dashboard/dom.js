// Elements without a framework. Text is always text: nothing here, or elsewhere on the page, takes HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} props
 * @param {(Child | Child[])[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") /** @type {HTMLInputElement} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * An element of HTML; a property with a function is a listener (`onclick`), one that is false, null or undefined is left out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

/**
 * An element of SVG.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, props, children);
  return element;
}

/**
 * Puts children in place of those that are there.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * An element that index.html has.
 * @param {string} id
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no ${id}`);
  return element;
}

/**
 * A field with its label.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [kind]
 */
export function field(label, control, kind = "") {
  return h("label", { class: `field ${kind}` }, h("span", {}, label), control);
}

/**
 * Names and values.
 * @param {[string, Child][]} pairs
 */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    ...pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? "–")]).flat(),
  );
}

/**
 * @param {string} text
 * @param {"good" | "warn" | "bad" | ""} [kind]
 */
export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/**
 * What is said where there is nothing yet: what would be here, and how it comes.
 * @param {string} title
 * @param {...Child} teaches
 */
export function empty(title, ...teaches) {
  return h("div", { class: "empty" }, h("strong", {}, title), ...teaches);
}

/**
 * An error, with what to do next.
 * @param {unknown} error
 * @param {() => void} [retry]
 */
export function failure(error, retry) {
  const said = error instanceof Error ? error.message : String(error);
  const next = /** @type {{ next?: string }} */ (error)?.next;
  return h(
    "div",
    { class: "callout bad", role: "alert" },
    h("p", {}, h("strong", {}, said)),
    next && h("p", {}, next),
    retry && h("button", { type: "button", onclick: retry }, "Try again"),
  );
}

/**
 * Draws only when something else would be seen: who selects text or has the focus there is not disturbed.
 * @param {HTMLElement} element
 * @param {() => void} draw
 */
export function keepOpen(element, draw) {
  if (element.contains(document.activeElement)) return;
  const before = [...element.childNodes];
  const said = element.textContent;
  draw();
  if (said === element.textContent && before.length > 0) element.replaceChildren(...before);
}
