// What the dashboard does over MQTT: keys, the live tap, the console.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Browser, executablePath } from "../js/browser.js";
import { Peer, name } from "../js/peer.js";
import { Cluster } from "./cluster.js";
import { Dashboard } from "./page.js";

describe("over WebSocket", { skip: !executablePath, timeout: 120_000 }, () => {
  const [cluster, browser] = [new Cluster(), new Browser()];
  let [dashboard, page, peer] = [];

  before(async () => {
    await browser.start();
    await cluster.start();
    dashboard = await Dashboard.open(browser, cluster.nodes[0], { token: cluster.write });
    page = dashboard.page;
    peer = await Peer.connect({ address: cluster.nodes[1].mqtt });
  });
  after(async () => {
    await peer?.leave();
    await browser.stop();
    await cluster.stop();
  });

  for (const [what, listener] of [
    ["an address without a WebSocket", "mqtt"],
    ["a listener for pages of another origin", "elsewhere"],
  ]) {
    test(`${what} is refused with advice`, async () => {
      const own = await Dashboard.open(browser, cluster.nodes[0], { token: cluster.write });
      await own.go("keys");
      await own.connect(cluster.nodes[0][listener]);
      await own.says(`Does its setting listeners.websocket.allowed_origins name this page, "http://${own.node.admin}"`);
      // A browser says it on the console by itself.
      const [said, ...more] = own.complaints;
      assert.match(said, /WebSocket connection to .* failed/);
      assert.deepEqual(more, []);
      await own.close();
    });
  }

  test("a login without a right sees what it may, and is told what it may not", async () => {
    await peer.publish(INVOKE, request("SET", "shown/a", "1"), asked(peer));
    await peer.publish(INVOKE, request("SET", "hidden/a", "1"), asked(peer));
    const reader = await Dashboard.open(browser, cluster.nodes[0], { token: cluster.write });
    await reader.go("keys");
    await reader.login(cluster.nodes[0].readers);
    await reader.says("1 keys");
    await reader.page.getByRole("button", { name: "shown/a" }).click();
    await reader.page.getByRole("button", { name: "Delete" }).click();
    await reader.dialog().getByRole("button", { name: "Delete" }).click();
    await reader.says("not authorized");
    await reader.says("docs/authorization.md");
    await reader.go("tap");
    await reader.page.getByRole("button", { name: "Tap", exact: true }).click();
    await reader.says("Not authorized (0x87)");
    await reader.isQuiet();
    await reader.close();
  });

  test("keys are made, found, looked at, edited and deleted", async () => {
    await dashboard.go("keys");
    await dashboard.login();
    const key = name("plant/door");
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = dashboard.dialog();
    await dialog.getByLabel("Key").fill(key);
    await dialog.getByLabel("Value").fill('{"open":true}');
    await dialog.getByRole("button", { name: "Create" }).click();
    await dashboard.says(`${key} is created.`);
    await dashboard.says('"open": true');
    await page.getByRole("button", { name: "Hex" }).click();
    await dashboard.says("7b 22 6f 70");

    await page.getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Value").fill("shut");
    await dialog.getByRole("button", { name: "Write" }).click();
    await dashboard.says(`${key} is written.`);
    assert.equal(await page.getByLabel("Value", { exact: true }).textContent(), "shut");

    await page.getByLabel("Glob").fill("plant/*");
    await page.getByRole("button", { name: "Find" }).click();
    await dashboard.says("1 keys");
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dashboard.says(`${key} is deleted.`);
    await dashboard.says("This key does not exist");
    await dashboard.says("No key fits");
    await dashboard.isQuiet();
  });

  test("a key that is held and expires says so, and keeps both when it is edited", async () => {
    const key = name("held");
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = dashboard.dialog();
    await dialog.getByLabel("Key").fill(key);
    await dialog.getByLabel("Value").fill("1");
    await dialog.getByLabel("Expires after seconds").fill("600");
    await dialog.getByRole("button", { name: "Create" }).click();
    await dashboard.says(`${key} is created.`);
    await dashboard.says(/\(in (9|10) min\)/);
    await dashboard.says("none");

    const token = `${Date.now()}:5:holder`;
    await peer.publish(INVOKE, request("SET", key, "2", "PX", "600000"), asked(peer, { __ft: token }));
    await page.getByRole("button", { name: "Load again" }).click();
    await dashboard.says(token);
    await page.getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Form").selectOption("hex");
    await dialog.getByLabel("Value").fill("zz");
    await dialog.getByRole("button", { name: "Write" }).click();
    await dialog.getByText("pairs of the digits").waitFor();
    await dialog.getByLabel("Value").fill("00 ff");
    await dialog.getByRole("button", { name: "Write" }).click();
    await dashboard.says("a fencing token is required");

    await page.getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Form").selectOption("hex");
    await dialog.getByLabel("Value").fill("00 ff");
    await dialog.getByLabel("Fencing token").fill(token);
    await dialog.getByRole("button", { name: "Write" }).click();
    await dashboard.says(`${key} is written.`);
    await dashboard.says("000000  00 ff");
    await dashboard.says(/\(in (9|10) min\)/);
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByLabel("Fencing token").fill(token);
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dashboard.says(`${key} is deleted.`);
    await dashboard.isQuiet();
  });

  test("a topic and a payload that are scripts stay text", async () => {
    await dashboard.go("tap");
    const topic = `${name("x")}/<img src=x onerror=alert(1)>`;
    await page.getByLabel("Topic filter").fill("#");
    await page.getByRole("button", { name: "Tap", exact: true }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
    await peer.publish(topic, "<script>alert(1)</script>", { qos: 1 });
    await dashboard.says(topic);
    assert.equal(await page.locator(".messages img, .messages script").count(), 0);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await dashboard.isQuiet();
  });

  test("the tap shows what is published at another node", async () => {
    await dashboard.go("tap");
    const topic = name("tapped");
    await page.getByLabel("Topic filter").fill(`${topic}/#`);
    await page.getByRole("button", { name: "Tap", exact: true }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
    await peer.publish(`${topic}/a`, '{"seen":1}', { qos: 1, properties: { userProperties: { from: "afar" } } });
    await dashboard.says(`${topic}/a`);
    await dashboard.says("from: afar");
    await page.getByRole("button", { name: "Pause" }).click();
    await peer.publish(`${topic}/b`, "later", { qos: 1 });
    await dashboard.says("paused, 1 wait");
    await page.getByRole("button", { name: "Go on" }).click();
    await dashboard.says(`${topic}/b`);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("button", { name: "Tap", exact: true }).waitFor();
    await dashboard.isQuiet();
  });

  test("the console subscribes, and publishes with properties", async () => {
    await dashboard.go("console");
    const topic = name("hall/light");
    await peer.subscribe(topic);
    const subscribe = page.getByRole("region", { name: "Subscribe" });
    await subscribe.getByLabel("Topic filter").fill(topic);
    await subscribe.getByLabel("QoS").selectOption("1");
    await subscribe.getByRole("button", { name: "Subscribe" }).click();
    await dashboard.says("Subscribed with QoS 1.");
    const publish = page.getByRole("region", { name: "Publish" });
    await publish.getByLabel("Topic", { exact: true }).fill(topic);
    await publish.getByLabel("Payload").fill("6f 6e");
    await publish.getByLabel("Form").selectOption("hex");
    await publish.getByText("Properties", { exact: true }).click();
    await publish.getByLabel("Content type").fill("text/plain");
    await publish.getByLabel("Response topic").fill(`${topic}/answer`);
    await publish.getByLabel("Correlation data").fill("17");
    await publish.getByLabel("Expires after seconds").fill("60");
    await publish.getByLabel("User properties").fill("by: hand");
    await publish.getByRole("button", { name: "Publish" }).click();
    await dashboard.says("The server has taken the message");
    const { payload, packet } = await peer.next();
    const { contentType, responseTopic, correlationData, userProperties } = packet.properties;
    assert.deepEqual(
      [`${payload}`, contentType, responseTopic, `${correlationData}`],
      ["on", "text/plain", `${topic}/answer`, "17"],
    );
    assert.equal(userProperties.by, "hand");
    await dashboard.says("by: hand");
    await publish.getByLabel("Topic", { exact: true }).fill("$SYS/not/allowed");
    await publish.getByRole("button", { name: "Publish" }).click();
    await dashboard.says("The message was refused");
    await page.getByRole("button", { name: `Unsubscribe from ${topic}` }).click();
    await dashboard.says("There is no subscription yet");
    await dashboard.isQuiet();
  });

  test("the connection is ended, and the page says so", async () => {
    await page.getByRole("button", { name: "Disconnect" }).click();
    await page.getByRole("button", { name: "Connect", exact: true }).waitFor();
    await dashboard.isQuiet();
  });
});

const INVOKE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";

const request = (...words) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

/** What a request to the store is published with; its acknowledgement comes when it is decided. */
function asked(peer, more = {}) {
  const userProperties = { __ts: `${Date.now()}:0:${peer.id}`, __protVer: "1.0", ...more };
  const correlationData = Buffer.from(name("request"));
  return { qos: 1, properties: { responseTopic: `clients/${peer.id}/reply`, correlationData, userProperties } };
}
