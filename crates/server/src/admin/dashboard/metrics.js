// What `/metrics` says, and what follows from two of its pages: rates, and quantiles of the time between them.

/** @typedef {{ labels: Record<string, string>, value: number }} Sample */
/** @typedef {Map<string, Sample[]>} Page */
/** @typedef {Record<string, string | ((value: string) => boolean)>} Wanted */
/** @typedef {{ at: number, value: number | null }} Point */

/**
 * Reads the text format of Prometheus. A line that is not understood is skipped.
 * @param {string} text
 * @returns {Page}
 */
export function parse(text) {
  /** @type {Page} */
  const page = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const found = LINE.exec(line);
    if (!found) continue;
    const [, name = "", labels = "", value = ""] = found;
    const samples = page.get(name) ?? [];
    samples.push({ labels: labelsOf(labels), value: figure(value) });
    page.set(name, samples);
  }
  return page;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** @param {string} text */
function labelsOf(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  for (const [, name = "", value = ""] of text.matchAll(LABEL)) {
    labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
  }
  return labels;
}

/** @param {string} text */
function figure(text) {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

/**
 * @param {Sample} sample
 * @param {Wanted} wanted
 */
function fits(sample, wanted) {
  return Object.entries(wanted).every(([name, value]) => {
    const has = sample.labels[name] ?? "";
    return typeof value === "function" ? value(has) : has === value;
  });
}

/** How many pages are remembered: with one every two seconds, six minutes. */
const PAGES_MAX = 180;

/** The pages of the last minutes. */
export class History {
  /** @type {{ at: number, page: Page }[]} */
  pages = [];

  /**
   * @param {number} at milliseconds
   * @param {Page} page
   */
  push(at, page) {
    const [before] = this.samples("statehold_start_time_seconds");
    const [start] = page.get("statehold_start_time_seconds") ?? [];
    // Another process counts from zero: what was before it is no beginning of a rate.
    if (before && start && before.value !== start.value) this.pages = [];
    this.pages.push({ at, page });
    if (this.pages.length > PAGES_MAX) this.pages.shift();
  }

  get last() {
    return this.pages.at(-1);
  }

  /**
   * @param {string} name
   * @param {Wanted} [wanted]
   */
  samples(name, wanted = {}) {
    return (this.last?.page.get(name) ?? []).filter((sample) => fits(sample, wanted));
  }

  /**
   * The sum of a family's samples; null if the page has none of them.
   * @param {string} name
   * @param {Wanted} [wanted]
   */
  value(name, wanted = {}) {
    return this.last ? sum(this.last.page, name, wanted) : null;
  }

  /**
   * That, over time.
   * @param {string} name
   * @param {Wanted} [wanted]
   * @returns {Point[]}
   */
  values(name, wanted = {}) {
    return this.pages.map(({ at, page }) => ({ at, value: sum(page, name, wanted) }));
  }

  /**
   * By how much counters grew, each second, over time.
   * @param {string | string[]} names
   * @param {Wanted} [wanted]
   * @returns {Point[]}
   */
  rates(names, wanted = {}) {
    const all = [names].flat();
    /** @param {Page} page */
    const total = (page) => all.reduce((so, name) => so + (sum(page, name, wanted) ?? 0), 0);
    return this.#between((from, to, passed) => Math.max(0, total(to) - total(from)) / passed);
  }

  /**
   * The quantile of what a histogram has counted between two pages, over time; null where nothing was counted.
   * @param {string} name
   * @param {number} quantile
   * @param {Wanted} [wanted]
   * @returns {Point[]}
   */
  quantiles(name, quantile, wanted = {}) {
    return this.#between((from, to) => {
      const before = buckets(from, name, wanted);
      const counted = buckets(to, name, wanted).map(([bound, count], index) => {
        return /** @type {[number, number]} */ ([bound, count - (before[index]?.[1] ?? 0)]);
      });
      return within(counted, quantile);
    });
  }

  /**
   * Values of a label that a family has.
   * @param {string} name
   * @param {string} label
   */
  labels(name, label) {
    return [...new Set(this.samples(name).map((sample) => sample.labels[label] ?? ""))];
  }

  /**
   * @param {(from: Page, to: Page, seconds: number) => number | null} compute
   * @returns {Point[]}
   */
  #between(compute) {
    return this.pages.slice(1).map(({ at, page }, index) => {
      const before = this.pages[index];
      return { at, value: before ? compute(before.page, page, Math.max(0.001, (at - before.at) / 1_000)) : null };
    });
  }
}

/**
 * @param {Page} page
 * @param {string} name
 * @param {Wanted} wanted
 */
function sum(page, name, wanted) {
  const samples = (page.get(name) ?? []).filter((sample) => fits(sample, wanted));
  return samples.length === 0 ? null : samples.reduce((so, { value }) => so + value, 0);
}

/**
 * @param {Page} page
 * @param {string} name
 * @param {Wanted} wanted
 */
function buckets(page, name, wanted) {
  /** @type {Map<number, number>} */
  const bounds = new Map();
  for (const sample of page.get(`${name}_bucket`) ?? []) {
    const bound = figure(sample.labels.le ?? "");
    if (fits(sample, wanted)) bounds.set(bound, (bounds.get(bound) ?? 0) + sample.value);
  }
  return [...bounds].sort(([a], [b]) => a - b);
}

/**
 * @param {[number, number][]} counted
 * @param {number} quantile
 */
function within(counted, quantile) {
  const total = counted.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = quantile * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of counted) {
    // Beyond the last bound nothing is known but that.
    if (count >= rank)
      return bound === Infinity ? lower : lower + ((bound - lower) * (rank - below)) / Math.max(1e-9, count - below);
    [lower, below] = [bound, count];
  }
  return lower;
}

/** @param {Point[]} points */
export function latest(points) {
  return points.at(-1)?.value ?? null;
}
