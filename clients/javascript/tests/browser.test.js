// The package as it is in a page of a browser, over WebSocket. The pages and the browser are those of interop/js.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { Browser, executablePath } from "../../../interop/js/browser.js";
import { Server } from "../../../interop/js/server.js";

const DIST = join(import.meta.dirname, "..", "dist");

if (!executablePath) console.log("SKIPPED: the package for JavaScript in a browser, since there is no Chromium here");

describe("in a browser", { skip: !executablePath, timeout: 120_000 }, () => {
  const modules = readdirSync(DIST).filter((name) => name.endsWith(".js"));
  const browser = new Browser(
    Object.fromEntries(modules.map((name) => [`/statehold/${name}`, ["text/javascript", readFileSync(join(DIST, name))]])),
  );
  const server = new Server(
    ({ ws } = {}) => `
[[listeners]]
address = "127.0.0.1:0"
[[listeners]]
address = "${ws ?? "127.0.0.1:0"}"
[listeners.websocket]
allowed_origins = ["${browser.origin()}"]
`,
  );
  let page;

  before(async () => {
    await browser.start();
    await server.start();
    page = await browser.page();
  });
  after(async () => {
    await browser.stop();
    await server.stop();
  });

  test("keys, watches, locks and a server that comes back", async () => {
    const url = `ws://${server.addresses.ws}/mqtt`;
    const began = await page.evaluate(async (address) => {
      const { Client, Lock, text } = await import("/statehold/index.js");
      const client = await Client.connect({ address });
      const store = client.stateStore();
      const watch = await store.watch("k");
      const { version } = await store.set("k", new Uint8Array([0, 255]), { ifAbsent: true });
      const { value } = await watch.next();
      const lock = await Lock.acquire(store, "l", { leaseMs: 20_000 });
      await store.set("protected", "é", { fencing: lock.token });
      const found = text((await store.get("protected")).value);
      globalThis.kept = { store, watch, lock };
      return { bytes: [...value.value], isVersion: value.version.compare(version) === 0, found };
    }, url);
    assert.deepEqual(began, { bytes: [0, 255], isVersion: true, found: "é" });

    await server.kill();
    await server.start();
    const types = await page.evaluate(async () => {
      const { store, watch, lock } = globalThis.kept;
      await store.delete("k");
      const seen = [(await watch.next()).value.type];
      if (seen[0] === "deleted") seen.push((await watch.next()).value.type);
      const isHeld = lock.isHeld;
      await lock.release();
      return { seen, isHeld, isFree: (await store.get("l")) === undefined };
    });
    assert(types.seen.includes("gap"), `${types.seen}`);
    assert(types.isHeld && types.isFree);
  });
});
