// A tab of the browser that is open at a node's dashboard. Whatever its console says that is no word of ours is an error of the test.
import assert from "node:assert/strict";
import { join } from "node:path";

const SOURCES = join(import.meta.dirname, "..", "..", "crates", "server", "src", "admin", "dashboard");

/** How long a page may take for what it does at once. */
const AT_ONCE_MS = 10_000;

export class Dashboard {
  complaints = [];

  static async open(browser, node, { token, width = 1280, theme = "light" } = {}) {
    const dashboard = new Dashboard();
    dashboard.node = node;
    dashboard.context = await browser.chromium.newContext({
      viewport: { width, height: 900 },
      colorScheme: theme,
      reducedMotion: "reduce",
    });
    const page = await dashboard.context.newPage();
    page.setDefaultTimeout(AT_ONCE_MS);
    page.on("console", (message) => message.type() !== "log" && dashboard.complaints.push(message.text()));
    page.on("pageerror", (error) => dashboard.complaints.push(error.stack));
    await dashboard.#fromSources();
    if (token) await page.addInitScript((value) => sessionStorage.setItem("statehold-token", value), token);
    dashboard.page = page;
    await page.goto(`http://${node.admin}/`);
    return dashboard;
  }

  /** With DASHBOARD_SOURCES the files, but for index.html, come from the repository: a change is seen without building the server. */
  async #fromSources() {
    if (!process.env.DASHBOARD_SOURCES) return;
    await this.context.route("**/ui/**", (route) => {
      const { pathname } = new URL(route.request().url());
      return route.fulfill({ path: join(SOURCES, pathname.replace(/^\/ui\//, "")) });
    });
  }

  async go(id) {
    await this.page.evaluate((id) => (location.hash = `#/${id}`), id);
    await this.page.locator("h1").first().waitFor();
  }

  /** Logs in over WebSocket, where the page asks for it. */
  async login(address = this.node.ws) {
    const { page } = this;
    await this.connect(address);
    await page.getByText("Connected to").waitFor();
  }

  async connect(address) {
    await this.page.getByLabel("WebSocket listener").fill(`ws://${address}/mqtt`);
    await this.page.getByRole("button", { name: "Connect", exact: true }).click();
  }

  /** Waits for words on the page. */
  async says(words) {
    await this.page.getByText(words).first().waitFor();
  }

  dialog() {
    return this.page.getByRole("dialog");
  }

  async isQuiet() {
    assert.deepEqual(this.complaints, []);
  }

  async close() {
    await this.context.close();
  }
}
