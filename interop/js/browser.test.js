// MQTT.js in a page of a real browser, over WebSocket.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { Browser, executablePath } from "./browser.js";
import { Peer, name } from "./peer.js";
import { Server, foreign } from "./server.js";

if (!executablePath) console.log("SKIPPED: MQTT.js in a browser, since there is no Chromium here");

describe("in a browser", { skip: foreign || !executablePath, timeout: 120_000 }, () => {
  const browser = new Browser();
  const certificates = mkdtempSync(join(tmpdir(), "statehold-browser-"));
  const [cert, key] = ["cert.pem", "key.pem"].map((file) => join(certificates, file));
  const tls = `[listeners.tls]\ncert = "${cert}"\nkey = "${key}"\n`;
  const server = new Server(
    ({ mqtt, ws, wss } = {}) => `
[[listeners]]
address = "${mqtt ?? "127.0.0.1:0"}"
[[listeners]]
address = "${ws ?? "127.0.0.1:0"}"
[listeners.websocket]
allowed_origins = ["${browser.origin()}"]
[[listeners]]
address = "${wss ?? "127.0.0.1:0"}"
[listeners.websocket]
allowed_origins = ["${browser.origin()}"]
${tls}`,
  );
  const ws = () => ({ url: `ws://${server.addresses.ws}/mqtt` });
  let page;

  before(async () => {
    const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost";
    execFileSync("openssl", [...request.split(" "), "-keyout", key, "-out", cert], { stdio: "ignore" });
    await browser.start();
    await server.start();
    page = await browser.page();
  });
  after(async () => {
    await browser.stop();
    await server.stop();
    rmSync(certificates, { recursive: true });
  });

  test("the subprotocol is chosen, and has to be offered", async () => {
    const open = (protocols) =>
      page.evaluate(
        ([url, protocols]) =>
          new Promise((resolve) => {
            const socket = new WebSocket(url, protocols);
            socket.onopen = () => (socket.close(), resolve(socket.protocol));
            socket.onerror = () => resolve("refused");
          }),
        [ws().url, protocols],
      );
    assert.equal(await open(["mqtt"]), "mqtt");
    assert.equal(await open(["chat", "mqtt"]), "mqtt");
    assert.equal(await open(["mqttv3.1"]), "refused");
    assert.equal(await open([]), "refused");
  });

  for (const version of [5, 4]) {
    test(`every QoS, protocol version ${version}`, async () => {
      const got = await page.evaluate(
        async ([server, version]) => {
          const { Peer, name } = await import("/peer.js");
          const [publisher, subscriber] = [
            await Peer.connect(server, { version }),
            await Peer.connect(server, { version }),
          ];
          const got = [];
          for (const granted of [0, 1, 2]) {
            const topic = name("qos");
            await subscriber.subscribe(topic, { qos: granted });
            for (const sent of [0, 1, 2]) {
              await publisher.publish(topic, `${sent}`, { qos: sent });
              const { payload, packet } = await subscriber.next();
              got.push([`${payload}`, packet.qos]);
            }
          }
          for (const peer of [publisher, subscriber]) await peer.leave();
          return got;
        },
        [ws(), version],
      );
      const expected = [0, 1, 2].flatMap((granted) => [0, 1, 2].map((sent) => [`${sent}`, Math.min(sent, granted)]));
      assert.deepEqual(got, expected);
    });
  }

  test("a payload that is larger than a frame comes back as it was", async () => {
    const lengths = [65_535, 65_536, 300_000];
    const came = await page.evaluate(
      async ([server, lengths]) => {
        const { Peer, name } = await import("/peer.js");
        const [peer, topic] = [await Peer.connect(server), name("large")];
        await peer.subscribe(topic, { qos: 2 });
        const came = [];
        for (const length of lengths) {
          const sent = Array.from({ length }, (_, index) => String.fromCharCode(33 + ((index * 7) % 90))).join("");
          await peer.publish(topic, sent, { qos: 2 });
          const text = `${(await peer.next()).payload}`;
          came.push(text === sent && text.length);
        }
        await peer.leave();
        return came;
      },
      [ws(), lengths],
    );
    assert.deepEqual(came, lengths);
  });

  test("a page and a client over TCP hear each other", async () => {
    const [peer, topic] = [await Peer.connect(server), name("across")];
    await peer.subscribe(`${topic}/up`);
    const heard = page.evaluate(
      async ([server, topic]) => {
        const { Peer } = await import("/peer.js");
        const peer = await Peer.connect(server);
        await peer.subscribe(`${topic}/down`);
        await peer.publish(`${topic}/up`, "from the page", { properties: { userProperties: { a: "\u20ac" } } });
        const { payload } = await peer.next();
        await peer.leave();
        return `${payload}`;
      },
      [ws(), topic],
    );
    const { payload, packet } = await peer.next();
    assert.deepEqual([`${payload}`, packet.properties.userProperties.a], ["from the page", "\u20ac"]);
    await peer.publish(`${topic}/down`, "from Node");
    assert.equal(await heard, "from Node");
    await peer.leave();
  });

  test("a page reconnects to a server that was killed, and its session is there", async () => {
    const [id, topic] = [name("page"), name("session")];
    await page.evaluate(
      async ([server, id, topic]) => {
        const { Peer } = await import("/peer.js");
        const peer = await Peer.connect(server, { id, clean: false, expiry: 300, more: { reconnectPeriod: 200 } });
        await peer.subscribe(topic, { qos: 2 });
        window.peer = peer;
        window.connectedAgain = new Promise((resolve) => peer.client.once("connect", resolve));
      },
      [ws(), id, topic],
    );
    await server.kill();
    await server.start();
    const other = await Peer.connect(server);
    await other.publish(topic, "kept", { qos: 2 });
    const [sessionPresent, text] = await page.evaluate(async () => {
      const { sessionPresent } = await window.connectedAgain;
      const { payload } = await window.peer.next();
      await window.peer.leave();
      return [sessionPresent, `${payload}`];
    });
    assert.deepEqual([sessionPresent, text], [true, "kept"]);
    await other.leave();
  });

  /** Whether MQTT.js in a page connects. */
  const connects = (page, server) =>
    page.evaluate(async (server) => {
      const { Peer } = await import("/peer.js");
      try {
        const peer = await Peer.connect(server);
        await peer.leave();
        return true;
      } catch {
        return false;
      }
    }, server);

  test("with TLS", async () => {
    assert.equal(await connects(page, { url: `wss://${server.addresses.wss}/mqtt` }), true);
  });

  test("a page of another origin is refused, and at another path every one", async () => {
    const stranger = await browser.page("localhost");
    assert.equal(await connects(stranger, ws()), false);
    assert.equal(await connects(page, { url: `ws://${server.addresses.ws}/` }), false);
    assert.equal(await connects(page, ws()), true);
  });
});
