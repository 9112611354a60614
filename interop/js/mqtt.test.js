// MQTT 5 and 3.1.1 with MQTT.js.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Peer, name } from "./peer.js";
import { Server, foreign } from "./server.js";

const server = new Server();
before(() => server.start());
after(() => server.stop());

const text = (message) => message.payload.toString();

for (const version of [5, 4]) {
  test(`every QoS, protocol version ${version}`, async () => {
    const [publisher, subscriber] = [await Peer.connect(server, { version }), await Peer.connect(server, { version })];
    for (const granted of [0, 1, 2]) {
      const topic = name("qos");
      const [{ qos }] = await subscriber.subscribe(topic, { qos: granted });
      assert.equal(qos, granted);
      for (const sent of [0, 1, 2]) {
        await publisher.publish(topic, `${sent}`, { qos: sent });
        const message = await subscriber.next();
        assert.deepEqual([text(message), message.packet.qos], [`${sent}`, Math.min(sent, granted)]);
      }
    }
    await publisher.leave();
    await subscriber.leave();
  });

  test(`a session waits for its client, protocol version ${version}`, async () => {
    const id = name("offline");
    const options = { id, version, clean: version === 5, expiry: 300 };
    const first = await Peer.connect(server, options);
    await first.subscribe("offline/#", { qos: 2 });
    await first.cut();
    const other = await Peer.connect(server);
    const expected = Array.from({ length: 50 }, (_, index) => `${index}`);
    for (const payload of expected) await other.publish(`offline/${version}`, payload, { qos: 1 });
    const second = await Peer.connect(server, { ...options, clean: false });
    assert.equal(second.connack.sessionPresent, true);
    const got = [];
    while (got.length < expected.length) got.push(text(await second.next()));
    assert.deepEqual(got, expected);
    await second.leave();
    await other.leave();
  });

  test(`retained messages and wills, protocol version ${version}`, async () => {
    const [watcher, topic] = [await Peer.connect(server, { version }), name("will")];
    await watcher.subscribe(topic);
    const will = { topic, payload: Buffer.from("gone"), qos: 1, retain: true };
    const dying = await Peer.connect(server, { version, more: { will } });
    await dying.cut();
    assert.equal(text(await watcher.next()), "gone");
    const later = await Peer.connect(server, { version });
    await later.subscribe(topic);
    const kept = await later.next();
    assert.deepEqual([text(kept), kept.packet.retain], ["gone", true]);
    await later.publish(topic, "", { retain: true });
    for (const peer of [watcher, later]) await peer.leave();
  });
}

test("properties go through unchanged", async () => {
  const [peer, topic] = [await Peer.connect(server), name("properties")];
  await peer.subscribe(topic, { properties: { subscriptionIdentifier: 9 } });
  const properties = {
    userProperties: { a: ["1", "2"], "\u00e4": "\u20ac" },
    contentType: "text/plain",
    responseTopic: "answer",
    correlationData: Buffer.from([0, 255]),
    payloadFormatIndicator: true,
    messageExpiryInterval: 100,
  };
  await peer.publish(topic, "x", { properties });
  const { properties: got } = (await peer.next()).packet;
  assert.deepEqual({ ...got.userProperties }, properties.userProperties);
  for (const key of ["contentType", "responseTopic", "correlationData", "payloadFormatIndicator"]) {
    assert.deepEqual(got[key], properties[key], key);
  }
  assert.ok(got.messageExpiryInterval > 90 && got.messageExpiryInterval <= 100);
  assert.equal(got.subscriptionIdentifier, 9);
  await peer.leave();
});

test("a takeover is told with 0x8E", { skip: Boolean(foreign) }, async () => {
  const id = name("taken");
  const first = await Peer.connect(server, { id });
  const second = await Peer.connect(server, { id });
  assert.equal((await first.disconnected).reasonCode, 0x8e);
  await first.closed;
  await second.leave();
});

test("No Local, Retain As Published, Retain Handling", async () => {
  const [peer, other, topic] = [await Peer.connect(server), await Peer.connect(server), name("options")];
  await peer.subscribe(topic, { nl: true, rap: true, rh: 2 });
  await peer.publish(topic, "own");
  await other.publish(topic, "kept", { retain: true });
  const came = await peer.came();
  assert.deepEqual(came.map((message) => [text(message), message.packet.retain]), [["kept", true]]);
  await peer.leave();
  await other.leave();
});

test("a topic alias of the client", async () => {
  const [peer, topic] = [await Peer.connect(server, { more: { autoAssignTopicAlias: true } }), name("alias")];
  await peer.subscribe(topic);
  for (const payload of ["1", "2", "3"]) await peer.publish(topic, payload);
  assert.deepEqual((await peer.came()).map(text), ["1", "2", "3"]);
  await peer.leave();
});
