// Every page of the dashboard, wide and narrow, light and dark; the token; and all of it by keyboard.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Browser, executablePath } from "../js/browser.js";
import { Peer } from "../js/peer.js";
import { Cluster } from "./cluster.js";
import { Dashboard } from "./page.js";

if (!executablePath) console.log("SKIPPED: the dashboard, since there is no Chromium here");

/** Each page, and words that it shows when it has heard of the node. */
const PAGES = {
  overview: "All is well",
  nodes: "RUNNING",
  groups: "up to date",
  rings: "Who owns what share",
  clients: "Who is connected to this node",
  subscriptions: "Each filter",
  queues: "are in use",
  retained: "The last message of each topic",
  keys: "WebSocket listener",
  tap: "WebSocket listener",
  console: "WebSocket listener",
};

describe("pages", { skip: !executablePath, timeout: 120_000 }, () => {
  const [cluster, browser] = [new Cluster(), new Browser()];
  let peer;

  before(async () => {
    await browser.start();
    await cluster.start();
    peer = await Peer.connect({ address: cluster.nodes[0].mqtt });
    await peer.subscribe("hall/#");
    await peer.publish("hall/light", "on", { qos: 1, retain: true });
  });
  after(async () => {
    await peer?.leave();
    await browser.stop();
    await cluster.stop();
  });
  const open = (options) => Dashboard.open(browser, cluster.nodes[0], { token: cluster.read, ...options });

  for (const width of [1280, 390]) {
    for (const theme of ["light", "dark"]) {
      test(`each at ${width} px, ${theme}`, async () => {
        const dashboard = await open({ width, theme });
        for (const [id, words] of Object.entries(PAGES)) {
          await dashboard.go(id);
          await dashboard.says(words);
          const { over, nameless } = await dashboard.page.evaluate(measure);
          assert.equal(over, 0, `${id} is wider than the window`);
          assert.deepEqual(nameless, [], `${id} has controls without a name`);
          await dashboard.page.screenshot({ fullPage: true });
        }
        await dashboard.isQuiet();
        await dashboard.close();
      });
    }
  }

  test("a token is asked for, a wrong one is refused, a right one is kept for this tab", async () => {
    const dashboard = await open({ token: undefined });
    const { page } = dashboard;
    await dashboard.dialog().getByText("asks for a token").waitFor();
    await page.keyboard.press("Escape");
    await dashboard.says("needs a token");
    await page.getByRole("button", { name: "Token", exact: true }).click();
    await dashboard.dialog().getByLabel("Token", { exact: true }).fill("sth_wrong");
    await dashboard.dialog().getByRole("button", { name: "Use it" }).click();
    await dashboard.dialog().getByText("not known").waitFor();
    await dashboard.dialog().getByLabel("Token", { exact: true }).fill(cluster.read);
    await dashboard.dialog().getByRole("button", { name: "Use it" }).click();
    await dashboard.says("All is well");
    await page.reload();
    await dashboard.says("All is well");
    assert.equal(await page.evaluate(() => localStorage.getItem("statehold-token")), null);
    // What a browser says by itself of a 401.
    assert.deepEqual(
      dashboard.complaints.filter((said) => !said.includes("401")),
      [],
    );
    await dashboard.close();
  });

  test("figures come without loading the page again", async () => {
    const dashboard = await open();
    await dashboard.says("Messages in");
    const publish = setInterval(() => peer.publish("hall/light", "on"), 20);
    await dashboard.page
      .locator(".tile", { hasText: "Messages in" })
      .locator(".figure", { hasNotText: /^(–|0)\/s$/ })
      .waitFor();
    clearInterval(publish);
    assert.equal(await dashboard.page.evaluate(() => performance.getEntriesByType("navigation").length), 1);
    await dashboard.close();
  });

  test("colours are switched, and stay so", async () => {
    const dashboard = await open({ theme: "light" });
    const background = () => dashboard.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await dashboard.page.getByLabel("Colours").selectOption("dark");
    const dark = await background();
    assert.notEqual(dark, light);
    await dashboard.page.reload();
    assert.equal(await background(), dark);
    await dashboard.close();
  });

  test("all pages are reached by keyboard, and what has the focus is seen", async () => {
    const dashboard = await open();
    const { page } = dashboard;
    await dashboard.says("All is well");
    await page.locator("body").evaluate(() => document.activeElement?.blur());
    const focused = () =>
      page.evaluate(() =>
        (document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").trim(),
      );
    await page.keyboard.press("Tab");
    for (let presses = 0; (await focused()) !== "Skip to the page"; presses++) {
      assert.ok(presses < 40, "the link to the page is among the first");
      await page.keyboard.press("Tab");
    }
    for (const title of [
      "Overview",
      "Nodes",
      "Groups",
      "Ring",
      "Clients",
      "Subscriptions",
      "Queues",
      "Retained",
      "Keys",
      "Live tap",
      "Console",
    ]) {
      for (let presses = 0; (await focused()) !== title; presses++) {
        assert.ok(presses < 80, `${title} is reached by Tab`);
        await page.keyboard.press("Tab");
      }
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(outline, "solid", `the focus on ${title} is seen`);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      await page.waitForFunction(() => document.activeElement?.id === "main");
      // The way back to the navigation.
      for (let presses = 0; (await focused()) !== "Console"; presses++) {
        assert.ok(presses < 80, "the navigation is reached backwards");
        await page.keyboard.press("Shift+Tab");
      }
      for (let presses = 0; (await focused()) !== "Overview"; presses++) await page.keyboard.press("Shift+Tab");
    }
    await dashboard.isQuiet();
    await dashboard.close();
  });

  test("on a narrow page the menu opens and closes", async () => {
    const dashboard = await open({ width: 390 });
    const menu = dashboard.page.getByRole("button", { name: "Menu" });
    const link = dashboard.page.getByRole("link", { name: "Groups", exact: true });
    assert.equal(await link.isVisible(), false);
    await menu.press("Enter");
    await link.click();
    await dashboard.says("up to date");
    assert.equal(await link.isVisible(), false);
    await dashboard.isQuiet();
    await dashboard.close();
  });

  test("files have their type and a tag, and no page of another origin frames them", async () => {
    const base = `http://${cluster.nodes[0].admin}`;
    for (const [path, type] of Object.entries({
      "/": "text/html",
      "/ui/app.js": "text/javascript",
      "/ui/style.css": "text/css",
      "/ui/icon.svg": "image/svg+xml",
    })) {
      const response = await fetch(base + path);
      assert.ok(response.headers.get("content-type").startsWith(type));
      const policy = response.headers.get("content-security-policy");
      for (const part of ["script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"])
        assert.ok(policy.includes(part));
      const again = await fetch(base + path, { headers: { "if-none-match": response.headers.get("etag") } });
      assert.equal(again.status, 304);
    }
    assert.equal((await fetch(`${base}/ui/none.js`)).status, 404);
    assert.equal((await fetch(`${base}/`, { headers: { origin: "https://other.example" } })).status, 403);
  });

  test("a node that is lost is said to be so, at once and in words", async () => {
    const dashboard = await open();
    await dashboard.says("All is well");
    await cluster.kill(2);
    await dashboard.says("Something is wrong");
    await dashboard.says(/Node .* is DEAD\./);
    await dashboard.go("nodes");
    await dashboard.page.getByRole("cell", { name: "DEAD" }).waitFor();
    await dashboard.isQuiet();
    await cluster.kill(0);
    await dashboard.says("not reached");
    await dashboard.close();
  });
});

/** Runs in the page: by how much it is wider than the window, and which controls have no name. */
function measure() {
  const controls = [...document.querySelectorAll("button, a, input, select, textarea")];
  const named = (control) => control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length;
  return {
    over: document.documentElement.scrollWidth - innerWidth,
    nameless: controls.filter((control) => !named(control)).map((control) => control.outerHTML),
  };
}
