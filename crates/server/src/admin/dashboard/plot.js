// Plots over time, as SVG. They say their latest figures in the legend as text, so nothing is in the picture alone.

import { h, put, svg } from "./dom.js";
import { bytes, clock } from "./format.js";

/** @typedef {import("./metrics.js").Point} Point */
/** @typedef {{ name: string, points: Point[] }} Series */

const WIDTH = 560;
const HEIGHT = 170;
const LEFT = 58;
const BOTTOM = 20;
const TOP = 8;

/** At least so much time is shown, so that a plot does not stretch two points over its width. */
const SHOWN_MS = 60_000;

/**
 * The upper end of an axis: 1, 2 or 5 times a power of ten, of bytes a power of two.
 * @param {number} value
 */
function roundUp(value, isBytes = false) {
  if (value <= 0) return 1;
  if (isBytes) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10);
}

/**
 * Lines with gaps where there is no value.
 * @param {Point[]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function path(points, x, y) {
  let [drawn, isDown] = ["", false];
  for (const { at, value } of points) {
    // A point without neighbours is a line to itself, which its round ends make a dot.
    const place = value === null ? "" : `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    if (place) drawn += isDown ? `L${place}` : `M${place}L${place}`;
    isDown = value !== null;
  }
  return drawn;
}

/** One figure with a heading, a plot and a legend; `show` draws what is new. */
export class Plot {
  /**
   * @param {string} title
   * @param {(value: number | null) => string} format
   */
  constructor(title, format) {
    this.title = title;
    this.format = format;
    /** @type {Series[]} */
    this.series = [];
    this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.legend = h("ul", { class: "legend" });
    this.time = h("span", { class: "soft small" });
    const caption = h("figcaption", {}, h("h2", {}, title), this.time);
    this.element = h("figure", { class: "plot panel" }, caption, this.picture, this.legend);
    /** Where the pointer is, as a part of the width. @type {number | null} */
    this.pointed = null;
    const point = (/** @type {any} */ event) => {
      const box = this.picture.getBoundingClientRect();
      this.pointed = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT);
      this.#draw();
    };
    this.picture.addEventListener("pointermove", point);
    this.picture.addEventListener("pointerleave", () => {
      this.pointed = null;
      this.#draw();
    });
  }

  /** @param {Series[]} series */
  show(series) {
    this.series = series;
    this.#draw();
  }

  #draw() {
    const all = this.series.flatMap(({ points }) => points);
    const end = Math.max(...all.map(({ at }) => at), 0);
    const begin = Math.min(end - SHOWN_MS, ...all.map(({ at }) => at));
    const top = roundUp(Math.max(0, ...all.map(({ value }) => value ?? 0)), this.format === bytes);
    const x = (/** @type {number} */ at) => LEFT + ((at - begin) / Math.max(1, end - begin)) * (WIDTH - LEFT);
    const y = (/** @type {number} */ value) => TOP + (1 - value / top) * (HEIGHT - BOTTOM - TOP);
    put(this.picture, this.#axes(begin, end, top, y), this.#lines(x, y), this.#cross(begin, end));
    const at = this.pointed === null ? end : begin + this.pointed * (end - begin);
    const shown = this.series.map(({ name, points }) => `${name} ${this.format(valueAt(points, at))}`);
    this.picture.setAttribute("aria-label", `${this.title}: ${shown.join(", ") || "nothing yet"}`);
    this.time.textContent = all.length === 0 ? "waiting for figures" : clock(new Date(at));
    put(
      this.legend,
      this.series.map(({ name, points }, index) =>
        h(
          "li",
          {},
          h("span", { class: `key s${(index % 6) + 1}` }),
          `${name} `,
          h("strong", {}, this.format(valueAt(points, at))),
        ),
      ),
    );
  }

  /**
   * @param {number} begin
   * @param {number} end
   * @param {number} top
   * @param {(value: number) => number} y
   */
  #axes(begin, end, top, y) {
    const levels = [0, top / 2, top].map((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)),
    ]);
    if (end === 0) return levels.flat();
    const times = [begin, (begin + end) / 2, end].map((at, index) => {
      const anchor = ["start", "middle", "end"][index];
      return svg(
        "text",
        { x: LEFT + (index / 2) * (WIDTH - LEFT), y: HEIGHT - 4, "text-anchor": anchor },
        clock(new Date(at)),
      );
    });
    return [...levels.flat(), ...times];
  }

  /**
   * @param {(at: number) => number} x
   * @param {(value: number) => number} y
   */
  #lines(x, y) {
    return this.series.map(({ points }, index) =>
      svg("path", { class: `line s${(index % 6) + 1}`, d: path(points, x, y) }),
    );
  }

  /**
   * @param {number} begin
   * @param {number} end
   */
  #cross(begin, end) {
    if (this.pointed === null || this.pointed < 0 || begin === end) return null;
    const at = LEFT + this.pointed * (WIDTH - LEFT);
    return svg("line", { class: "cross", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM });
  }
}

/**
 * @param {Point[]} points
 * @param {number} at
 */
function valueAt(points, at) {
  /** @type {Point | undefined} */
  let nearest;
  for (const point of points) {
    if (!nearest || Math.abs(point.at - at) < Math.abs(nearest.at - at)) nearest = point;
  }
  return nearest?.value ?? null;
}

/**
 * A line without axes, for a tile.
 * @param {Point[]} points
 */
export function spark(points) {
  const known = points.map(({ value }) => value ?? 0);
  const top = Math.max(...known, 1e-9);
  const [first, last] = [points[0]?.at ?? 0, points.at(-1)?.at ?? 1];
  const x = (/** @type {number} */ at) => ((at - first) / Math.max(1, last - first)) * 100;
  const y = (/** @type {number} */ value) => 25 - (value / top) * 23;
  const line = path(points, x, y);
  const closed = line && known.length > 1 && !line.slice(1).includes("M") ? `${line}L100 26L0 26Z` : "";
  return svg(
    "svg",
    { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "area f1", d: closed }),
    svg("path", { class: "line s1", d: line }),
  );
}

/**
 * A share of a whole, as a bar.
 * @param {number} share from 0 to 1
 * @param {number} [colour]
 */
export function bar(share, colour = 1) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return h(
    "span",
    { class: "bar" },
    svg(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: `f${colour}`, width, height: 10 }),
    ),
  );
}
