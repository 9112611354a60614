// A headless Chromium, and the web server from which its pages load MQTT.js, peer.js and what a test adds. CHROMIUM names the browser, else
// it is looked for.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/** The path of a browser, if this machine has one. */
export const executablePath =
  process.env.CHROMIUM ??
  (process.env.PATH ?? "")
    .split(delimiter)
    .flatMap((directory) => NAMES.map((name) => join(directory, name)))
    .find((path) => existsSync(path));

const here = (...path) => readFileSync(join(import.meta.dirname, ...path));
const FILES = {
  "/": ["text/html", `<!doctype html><script type="importmap">{"imports": {"mqtt": "/mqtt.js"}}</script>`],
  "/mqtt.js": ["text/javascript", here("node_modules", "mqtt", "dist", "mqtt.esm.js")],
  "/peer.js": ["text/javascript", here("peer.js")],
};

export class Browser {
  /** With further files of its web server, by their paths: the type of each and what is in it. */
  constructor(files = {}) {
    this.files = { ...FILES, ...files };
  }

  async start() {
    this.web = createServer((request, response) => {
      const [type, body] = this.files[request.url] ?? [];
      response.writeHead(body ? 200 : 404, { "content-type": type ?? "text/plain" }).end(body);
    });
    await new Promise((resolve) => this.web.listen(0, "127.0.0.1", resolve));
    const { chromium } = await import("playwright-core");
    // CI has no user for whom Chromium could make a sandbox; its pages are ours.
    this.chromium = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  }

  /** Two names of this machine are two origins. */
  origin(host = "127.0.0.1") {
    return `http://${host}:${this.web.address().port}`;
  }

  async page(host) {
    const context = await this.chromium.newContext({ ignoreHTTPSErrors: true });
    const page = await context.newPage();
    await page.goto(this.origin(host));
    return page;
  }

  async stop() {
    await this.chromium?.close();
    this.web?.close();
  }
}
