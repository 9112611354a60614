// What the server says of itself, asked for again and again: metrics, how the cluster stands, whether the node is ready.

import * as api from "./api.js";
import { History, parse } from "./metrics.js";

const EVERY_MS = 2_000;

/** As many as pages of metrics. */
const LAGS_MAX = 180;

export class Live {
  history = new History();
  /** As `/cluster` says it; null outside of a cluster. @type {any} */
  cluster = null;
  /** As `/api/node` says it; null where the server has no such page. @type {any} */
  node = null;
  /** Why no client should be sent to the node. @type {string[]} */
  notReady = [];
  /** Why nothing was heard. @type {unknown} */
  error = null;

  /** What copies of groups lack, over time, by group and node. @type {Map<string, import("./metrics.js").Point[]>} */
  lags = new Map();
  /** Pages that this server does not have. @type {Set<string>} */
  #missing = new Set();

  /** @param {() => void} onChange after each round */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.isAsking = false;
  }

  /** Asks at once, and from then on. */
  async start() {
    clearTimeout(this.timer);
    if (this.isAsking) return;
    this.isAsking = true;
    // Nobody looks at a page that is hidden: its plots have a gap then.
    if (!document.hidden) await this.#round();
    this.isAsking = false;
    this.timer = setTimeout(() => this.start(), EVERY_MS);
  }

  async #round() {
    try {
      const [metrics, node] = await Promise.all([api.get("/metrics"), this.#orNull("/api/node")]);
      this.history.push(Date.now(), parse(metrics));
      // Only a cluster has states of nodes, and only a cluster has this page.
      this.cluster = this.states().size > 0 ? await this.#orNull("/cluster") : null;
      this.notReady = await this.#whyNotReady(node);
      [this.node, this.error] = [node, null];
      this.#keepLags();
    } catch (error) {
      this.error = error;
    }
    this.onChange();
  }

  /**
   * What a server does not have is asked for once: it is older than this page.
   * @param {string} path
   */
  async #orNull(path) {
    if (this.#missing.has(path)) return null;
    try {
      return await api.get(path);
    } catch (error) {
      if (!(error instanceof api.ApiError && error.status === 404)) throw error;
      this.#missing.add(path);
      return null;
    }
  }

  /** @param {any} node @returns {Promise<string[]>} */
  async #whyNotReady(node) {
    if (node) return node.ready ? [] : node.not_ready;
    const { status, text } = await api.page("/readyz");
    return status === 200 ? [] : text.split("\n").filter((line) => line !== "");
  }

  #keepLags() {
    for (const { group, leader, replicas } of this.cluster?.groups ?? []) {
      for (const { node, lacks } of replicas) {
        if (node === leader) continue;
        const name = `${group} at ${this.addressOf(node)}`;
        const points = this.lags.get(name) ?? [];
        points.push({ at: Date.now(), value: lacks });
        this.lags.set(name, points.slice(-LAGS_MAX));
      }
    }
  }

  /** The state of each node as this one sees it, by node id. */
  states() {
    const samples = this.history.samples("statehold_node_state");
    return new Map(
      samples.filter(({ value }) => value === 1).map(({ labels }) => [labels.node ?? "", labels.state ?? ""]),
    );
  }

  /** The address of a node, by its id. @param {string} node */
  addressOf(node) {
    const known = this.cluster?.nodes.find((/** @type {any} */ each) => each.node === node);
    return known?.address ?? node;
  }
}
