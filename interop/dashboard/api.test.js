// What the dashboard does with the admin pages: clients, subscriptions, queues, retained messages.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Browser, executablePath } from "../js/browser.js";
import { Peer, name } from "../js/peer.js";
import { Cluster } from "./cluster.js";
import { Dashboard } from "./page.js";

describe("over the admin pages", { skip: !executablePath, timeout: 120_000 }, () => {
  const [cluster, browser] = [new Cluster(), new Browser()];
  const id = name("pump/7 ?");
  let [dashboard, page, peer] = [];

  before(async () => {
    await browser.start();
    await cluster.start();
    const will = { topic: "plant/gone", payload: Buffer.from("pump-7"), qos: 1, properties: { willDelayInterval: 5 } };
    peer = await Peer.connect({ address: cluster.nodes[0].mqtt }, { id, expiry: 300, more: { will } });
    await peer.subscribe("plant/+/orders", { qos: 2 });
    await peer.subscribe("$share/night/plant/alarms");
    dashboard = await Dashboard.open(browser, cluster.nodes[0], { token: cluster.write });
    page = dashboard.page;
  });
  after(async () => {
    await browser.stop();
    await cluster.stop();
  });

  test("clients are searched, shown, and disconnected", async () => {
    await dashboard.go("clients");
    await page.getByLabel("Search client ids").fill("no such client");
    await dashboard.says("Nothing fits");
    await page.getByLabel("Search client ids").fill(id.slice(0, 6).toUpperCase());
    await page.getByLabel("State").selectOption("true");
    await page.getByRole("link", { name: id }).click();
    for (const words of ["plant/+/orders", "night", "plant/gone", "5 min"]) await dashboard.says(words);

    await page.getByRole("button", { name: "Disconnect …" }).click();
    await dashboard.dialog().getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Disconnect …" }).click();
    await dashboard.dialog().getByLabel("Reason").fill("maintenance");
    await dashboard.dialog().getByRole("button", { name: "Disconnect", exact: true }).click();
    await dashboard.says(`${id} is disconnected.`);
    const { reasonCode } = await peer.disconnected;
    assert.equal(reasonCode, 0x98);
    await dashboard.says("away");
    await dashboard.isQuiet();
  });

  test("a token of the scope read disconnects nobody, and the page says what is needed", async () => {
    const other = await Peer.connect({ address: cluster.nodes[0].mqtt }, { id: name("other") });
    const looker = await Dashboard.open(browser, cluster.nodes[0], { token: cluster.read });
    await looker.go(`client/${encodeURIComponent(other.id)}`);
    await looker.page.getByRole("button", { name: "Disconnect …" }).click();
    await looker.dialog().getByRole("button", { name: "Disconnect", exact: true }).click();
    await looker.says("use a token of the scope write");
    assert.deepEqual(
      looker.complaints.filter((said) => !said.includes("403")),
      [],
    );
    await looker.close();
    await other.leave();
  });

  test("a client that is not there is said to be so, with a way back", async () => {
    await dashboard.go("client/nobody");
    await dashboard.says("Go back to the list.");
    await page.getByRole("link", { name: "All clients" }).click();
    await page.getByRole("link", { name: id }).waitFor();
    // What a browser says by itself of a 404.
    assert.deepEqual(
      dashboard.complaints.splice(0).filter((said) => !said.includes("404")),
      [],
    );
  });

  test("subscriptions are found by a part of their filter", async () => {
    await dashboard.go("subscriptions");
    await page.getByLabel("Search filters").fill("alarms");
    await page.getByRole("cell", { name: "night" }).waitFor();
    await page.getByRole("cell", { name: "plant/+/orders" }).waitFor({ state: "detached" });
    await dashboard.isQuiet();
  });

  test("a queue of a client that is away is shown", async () => {
    const sender = await Peer.connect({ address: cluster.nodes[1].mqtt });
    for (let sent = 0; sent < 3; sent++) await sender.publish("plant/7/orders", `order ${sent}`, { qos: 1 });
    await sender.leave();
    await dashboard.go("queues");
    const row = page.getByRole("row", { name: id });
    await row.getByRole("cell", { name: "3", exact: true }).waitFor();
    await dashboard.isQuiet();
  });

  test("a retained message is found by a filter, shown, and deleted in the whole cluster", async () => {
    const [sender, topic] = [await Peer.connect({ address: cluster.nodes[1].mqtt }), name("hall/a light?/état")];
    const properties = { contentType: "application/json", userProperties: { by: "hand" } };
    await sender.publish(topic, '{"on":true}', { qos: 1, retain: true, properties });
    await dashboard.go("retained");
    await page.getByLabel("Topic filter").fill("hall/+/#");
    await page.getByRole("button", { name: topic }).click();
    for (const words of ['"on": true', "application/json", "by: hand"]) await dashboard.says(words);
    await page.getByRole("button", { name: "Delete …" }).click();
    await dashboard.dialog().getByRole("button", { name: "Delete", exact: true }).click();
    await dashboard.says(`The retained message of ${topic} is deleted.`);
    await dashboard.says("Nothing fits");
    await sender.subscribe(topic);
    assert.deepEqual(await sender.came(), []);
    await sender.leave();
    await page.getByLabel("Topic filter").fill("hall/#/no");
    await dashboard.says("is a topic filter of MQTT");
    // What a browser says by itself of a 400.
    assert.deepEqual(
      dashboard.complaints.splice(0).filter((said) => !said.includes("400")),
      [],
    );
  });

  test("the ring says which share each node has", async () => {
    await dashboard.go("rings");
    await dashboard.says("4,096 slots");
    assert.equal(
      await page
        .locator("section", { has: page.getByRole("heading", { name: "4,096 slots" }) })
        .locator("tbody tr")
        .count(),
      3,
    );
    await dashboard.isQuiet();
  });
});
