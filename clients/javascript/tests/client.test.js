// The client against a server that runs: the behaviour of the Rust client, test for test, and its examples.
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";

import { binary, Server } from "../../../interop/js/server.js";
import * as statehold from "../dist/index.js";

const { Client, ConnectError, Ended, ErrorText, LeaderElection, Lease, Lock, NotInTime, QueueFull, text } = statehold;
const { RefusedByStore, TimedOut, TooLarge } = statehold;
const PACKAGE = join(import.meta.dirname, "..");
const TIMEOUT = { timeout: 60_000 };

/** A test with a server of its own, and clients that end with it. */
function story(name, run, settings) {
  test(name, TIMEOUT, async () => {
    const server = new Server(settings);
    await server.start();
    const clients = [];
    const connect = async (options = {}) => {
      const client = await Client.connect({ address: server.address, ...options });
      clients.push(client);
      return client;
    };
    const store = async (options) => (await connect(options)).stateStore();
    try {
      await run({ server, connect, store });
    } finally {
      for (const client of clients) client.disconnect();
      await server.stop();
    }
  });
}

const next = async (watch) => (await watch.next()).value;
const take = async (events) => {
  const taken = [];
  for await (const event of events) taken.push(event);
  return taken;
};

describe("keys", () => {
  story("set, get, delete", async ({ store }) => {
    const keys = await store();
    assert.equal(await keys.get("k"), undefined);
    const first = await keys.set("k", "v");
    const found = await keys.get("k");
    assert.deepEqual([text(found.value), found.version], ["v", first.version]);
    const second = await keys.set("k", new Uint8Array([0, 13, 10, 255]));
    assert(second.version.isLaterThan(first.version));
    assert.deepEqual((await keys.get("k")).value, new Uint8Array([0, 13, 10, 255]));
    assert.deepEqual(await keys.vdel("k", "v"), { outcome: "other-value", version: second.version });
    assert.deepEqual(await keys.vdel("k", new Uint8Array([0, 13, 10, 255])), { outcome: "deleted", version: second.version });
    assert.deepEqual(await keys.delete("k"), { outcome: "missing" });
  });

  story("conditions", async ({ store }) => {
    const keys = await store();
    const { stored, version } = await keys.set("k", "a", { ifAbsent: true });
    assert(stored);
    assert.deepEqual(await keys.set("k", "a", { ifAbsent: true }), { stored: false, version });
    const isStored = async (value, options) => (await keys.set("k", value, options)).stored;
    assert(!(await isStored("b", { ifAbsentOrEqual: true })));
    assert(await isStored("a", { ifAbsentOrEqual: true }));
    assert(!(await isStored("b", { ifAbsentOr: "x" })));
    assert(await isStored("b", { ifAbsentOr: "a", expiresInMs: 60_000 }));
    await assert.rejects(isStored("a", { ifAbsent: true, ifAbsentOr: "x" }), RangeError);
  });

  story("a key expires", async ({ store }) => {
    const keys = await store();
    const watch = await keys.watch("k");
    await assert.rejects(keys.set("k", "v", { expiresInMs: 0 }), RangeError);
    await keys.set("k", "v", { expiresInMs: 0.1 });
    assert.equal((await next(watch)).type, "set");
    assert.equal((await next(watch)).type, "deleted");
    assert.equal(await keys.get("k"), undefined);
  });

  story("fencing", async ({ store }) => {
    const keys = await store();
    const [old, token] = [(await keys.set("token", "1")).version, (await keys.set("token", "2")).version];
    await keys.set("k", "1", { fencing: token });
    await assert.rejects(keys.set("k", "2"), { reason: ErrorText.FENCING_TOKEN_REQUIRED });
    await assert.rejects(keys.set("k", "2", { fencing: old }), { reason: ErrorText.FENCING_TOKEN_LOWER });
    assert.equal((await keys.delete("k", { fencing: token })).outcome, "deleted");
  });

  story("a scan lists every key once", async ({ store }) => {
    const keys = await store();
    const names = Array.from({ length: 1500 }, (_, number) => `scan/${number + 10_000}`);
    await Promise.all([...names, "other"].map((name) => keys.set(name, "")));
    assert.deepEqual((await take(keys.scan("scan/*"))).map(text).sort(), names);
  });

  story("what is wrong is refused with a reason", async ({ store }) => {
    const keys = await store();
    await assert.rejects(keys.get(""), { reason: ErrorText.KEY_LENGTH_ZERO });
    await assert.rejects(keys.watch("k".repeat(33_000)), { reason: ErrorText.KEY_TOO_LONG_TO_WATCH });
    await assert.rejects(take(keys.scan("[")), (error) => error instanceof RefusedByStore && error.reason === ErrorText.SYNTAX);
  });

  const smallPackets = () => `[limits]\npacket_size_max = 100000\n[[listeners]]\naddress = "127.0.0.1:0"\n`;
  story("what is larger than the server takes is not sent", async ({ store }) => {
    const keys = await store();
    await assert.rejects(keys.set("k", "v".repeat(100_000)), (error) => error instanceof TooLarge && error.limit === 100_000);
    assert((await keys.set("k", "v".repeat(99_000))).stored);
  }, smallPackets);
});

describe("connections", () => {
  story("requests and watches wait for the server to come back", async ({ server, store }) => {
    const keys = await store();
    const watch = await keys.watch("k");
    await server.kill();
    // Asked for while nobody is there.
    const asked = keys.set("k", "v");
    await server.start();
    assert((await asked).stored);
    const events = [await next(watch)];
    if (events[0].type === "set") events.push(await next(watch));
    assert(events.some(({ type }) => type === "gap"));
    await keys.set("k", "w");
    for await (const event of watch) if (event.type === "set" && text(event.value) === "w") break;
  });

  story("a write whose reply was lost is not executed twice", async ({ server, store }) => {
    // Once it swallows, what the server says next does not arrive, and the connection is cut.
    let swallows = false;
    const [host, port] = server.address.split(":");
    const proxy = createServer((client) => {
      const upstream = createConnection({ host, port });
      client.on("data", (data) => upstream.write(data)).on("close", () => upstream.destroy());
      upstream.on("close", () => client.destroy());
      upstream.on("data", (data) => {
        if (swallows) client.destroy();
        else client.write(data);
        swallows = false;
      });
      for (const socket of [client, upstream]) socket.on("error", () => {});
    });
    await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const keys = await store({ address: `127.0.0.1:${proxy.address().port}` });
    await keys.get("k");
    swallows = true;
    const { stored, version } = await keys.set("k", "v", { ifAbsent: true });
    assert(stored, "the first outcome, not that of another attempt");
    assert(!swallows);
    assert.deepEqual((await keys.get("k")).version, version);
    proxy.close();
  });

  story("a second client with the same id takes over for good", async ({ connect }) => {
    const first = await connect({ clientId: "same" });
    const watch = await first.stateStore().watch("k");
    const ended = new Promise((resolve) => first.onStateChange((state) => state.type === "ended" && resolve(state.loss)));
    const second = await connect({ clientId: "same" });
    assert.equal((await ended).reason, 0x8e);
    await assert.rejects(first.stateStore().get("k"), Ended);
    await assert.rejects(watch.next(), Ended);
    await second.stateStore().get("k");
  });

  story("without a server connecting fails or waits", async ({ server, connect }) => {
    await server.kill();
    await assert.rejects(connect(), (error) => error instanceof ConnectError && error.message.includes("ECONNREFUSED"));
    const waiting = connect({ reconnect: "always" });
    await server.start();
    await (await waiting).stateStore().get("k");
  });

  story("connecting that is given up ends, with nothing left behind", async ({ server, connect }) => {
    await server.kill();
    const abort = new AbortController();
    const states = [];
    const waiting = Client.connect(
      { address: server.address, reconnect: "always" },
      { signal: abort.signal, onStateChange: ({ type }) => (states.push(type), type === "waiting" && abort.abort()) },
    );
    await assert.rejects(waiting, ConnectError);
    assert.deepEqual(states, ["connecting", "waiting", "ended"]);
    await assert.rejects(Client.connect(server.address, { signal: AbortSignal.abort() }), ConnectError);
  });

  story("without reconnecting the first loss is the end", async ({ server, store }) => {
    const keys = await store({ reconnect: "never" });
    const watch = await keys.watch("k");
    await server.kill();
    await assert.rejects(watch.next(), Ended);
    await assert.rejects(keys.get("k"), Ended);
  });

  story("a request that nobody answers times out", async ({ server, store }) => {
    const keys = await store({ timeoutMs: 300 });
    await server.kill();
    await assert.rejects(keys.get("k"), TimedOut);
  });

  story("disconnecting fails what is under way and ends watches", async ({ server, connect }) => {
    const client = await connect();
    const watch = await client.stateStore().watch("k");
    await server.kill();
    const asked = client.stateStore().get("k");
    client.disconnect();
    await assert.rejects(asked, Ended);
    assert.deepEqual(await take(watch), []);
  });

  story("more requests and watches than allowed are refused at once", async ({ store }) => {
    const keys = await store({ operationsMax: 2, watchesMax: 1 });
    const results = await Promise.allSettled(["a", "b", "c"].map((key) => keys.get(key)));
    assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "fulfilled", "rejected"]);
    assert(results[2].reason instanceof QueueFull);
    const watch = await keys.watch("k");
    await assert.rejects(keys.watch("l"), QueueFull);
    watch.close();
    await keys.watch("l");
  });

  story("a thousand requests at once", async ({ store }) => {
    const keys = await store();
    const outcomes = await Promise.all(Array.from({ length: 1000 }, (_, number) => keys.set(`k${number}`, "v")));
    assert(outcomes.every(({ stored }) => stored));
  });

  const passwords = mkdtempSync(join(tmpdir(), "statehold-client-"));
  const file = join(passwords, "clients.passwd");
  execFileSync(binary(), ["passwd", file, "pump"], { input: "pencil\n", stdio: ["pipe", "ignore", "ignore"] });
  const settings = () =>
    `[[listeners]]\naddress = "127.0.0.1:0"\nauthentication = ["password"]\n[authentication.password]\nfile = "${file}"\n`;
  story("who knows the password is let in, and others are told", async ({ connect }) => {
    await (await connect({ username: "pump", password: "pencil" })).stateStore().get("k");
    const wrong = connect({ username: "pump", password: "wrong" });
    await assert.rejects(wrong, (error) => error.loss.kind === statehold.LossKind.REFUSED);
    rmSync(passwords, { recursive: true });
  }, settings);
});

describe("transports", () => {
  const directory = mkdtempSync(join(tmpdir(), "statehold-client-"));
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => join(directory, name));
  const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost";
  const names = ["-addext", "subjectAltName=DNS:localhost"];
  execFileSync("openssl", [...request.split(" "), ...names, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const tls = `[listeners.tls]\ncert = "${cert}"\nkey = "${key}"\n`;
  // Any page of a browser on this machine could connect, which has to be wanted.
  const websocket = "allow_anonymous = true\n[listeners.websocket]\n";
  const settings = () => ["", tls, websocket, websocket + tls].map((more) => `[[listeners]]\naddress = "127.0.0.1:0"\n${more}`).join("");
  const port = (address) => address.split(":").at(-1);

  story("each carries requests larger than its pieces", async ({ server, store }) => {
    const value = crypto.getRandomValues(new Uint8Array(60_000));
    const { mqtt, mqtts, ws, wss } = server.addresses;
    const ca = readFileSync(cert, "utf8");
    for (const options of [
      { address: `mqtt://${mqtt}` },
      { address: `mqtts://localhost:${port(mqtts)}`, tls: { ca } },
      { address: `ws://${ws}/mqtt` },
      { address: `wss://localhost:${port(wss)}`, tls: { ca } },
    ]) {
      const keys = await store(options);
      const watch = await keys.watch("k");
      await keys.set("k", value);
      assert.deepEqual((await next(watch)).value, value, options.address);
    }
  }, settings);

  test("a certificate that is none is an error of the options", async () => {
    const wrong = Client.connect({ address: "mqtts://127.0.0.1:1", tls: { cert: "none" } });
    await assert.rejects(wrong, { name: "OptionsError" });
  });

  story("a server that nobody vouches for is not trusted", async ({ server, connect }) => {
    const untrusted = connect({ address: `mqtts://localhost:${port(server.addresses.mqtts)}` });
    await assert.rejects(untrusted, (error) => error instanceof ConnectError && error.message.includes("certificate"));
    rmSync(directory, { recursive: true });
  }, settings);
});

describe("watches", () => {
  story("one that nobody reads ends in a gap and holds nothing up", async ({ store }) => {
    const keys = await store({ watchCapacity: 4 });
    const watch = await keys.watch("k");
    for (let number = 0; number < 300; number += 1) await keys.set("k", `${number}`);
    while ((await next(watch)).type !== "gap");
    for await (const event of watch) if (text(event.value) === "299") break;
  });

  story("two watches of a key see the same, and one may end", async ({ store }) => {
    const keys = await store();
    const [first, second] = [await keys.watch("k"), await keys.watch("k")];
    const { version } = await keys.set("k", "v");
    for (const watch of [first, second]) {
      const event = await next(watch);
      assert.deepEqual([event.type, text(event.value), event.version], ["set", "v", version]);
    }
    second.close();
    await keys.set("k", "w");
    assert.equal((await next(first)).type, "set");
    assert.deepEqual(await take(second), []);
  });

  story("a key can be watched again", async ({ store }) => {
    const keys = await store();
    for (const value of ["a", "b", "c"]) {
      const watch = await keys.watch("k");
      await keys.set("k", value);
      assert.equal(text((await next(watch)).value), value);
      watch.close();
    }
  });
});

describe("leases", () => {
  story("one is had, renewed and given back", async ({ store }) => {
    const keys = await store();
    const lease = await Lease.acquire(keys, "l", "me", 60_000);
    assert.equal(await Lease.acquire(keys, "l", "you", 60_000), undefined);
    const { token } = lease;
    assert(await lease.renew());
    assert(lease.token.isLaterThan(token));
    assert(lease.remainingMs > 50_000);
    await keys.set("l", "you"); // taken by force
    assert(!(await lease.renew()));
    assert(!(await lease.release()));
  });
});

describe("locks", () => {
  story("a released lock is free and a stolen one is lost", async ({ store }) => {
    const keys = await store();
    let lock = await Lock.acquire(keys, "l", { leaseMs: 600 });
    assert(lock.isHeld);
    await lock.release();
    assert.equal(await lock.lost(), "released");
    lock = await Lock.acquire(keys, "l", { leaseMs: 600, waitMs: 5000 });
    await keys.set("l", "thief"); // taken by force
    assert.equal(await lock.lost(), "taken-over");
    assert(!lock.isHeld);
    await lock.release();
    assert.equal(text((await keys.get("l")).value), "thief", "it is not ours to delete");
  });

  story("others wait for it in vain, or get it", async ({ store }) => {
    const [one, other] = [await store(), await store()];
    const lock = await Lock.acquire(one, "l", { leaseMs: 10_000 });
    for (const waitMs of [0, 100]) await assert.rejects(Lock.acquire(other, "l", { leaseMs: 10_000, waitMs }), NotInTime);
    const [{ token }, began] = [lock, performance.now()];
    const [, second] = await Promise.all([lock.release(), Lock.acquire(other, "l", { leaseMs: 10_000 })]);
    assert(performance.now() - began < 5000, "it was told, and did not wait for the lease");
    assert(second.token.isLaterThan(token));
    await second.release();
    assert.equal(await one.get("l"), undefined);
  });

  story("one that is held is renewed", async ({ store }) => {
    const keys = await store();
    const watch = await keys.watch("l");
    const lock = await Lock.acquire(keys, "l", { leaseMs: 300 });
    const { token } = lock;
    for (let renewals = 0; renewals < 4; renewals += 1) assert.equal((await next(watch)).type, "set");
    assert(lock.isHeld && lock.token.isLaterThan(token));
    await lock.release();
  });

  story("one whose server is gone is lost in time", async ({ server, store }) => {
    const lock = await Lock.acquire(await store(), "l", { leaseMs: 500 });
    await server.kill();
    assert.equal(await lock.lost(), "expired");
    assert(!lock.isHeld);
  });

  story("one attempt at a server that is gone has no answer", async ({ server, store }) => {
    const keys = await store({ timeoutMs: 300 });
    await server.kill();
    await assert.rejects(Lock.acquire(keys, "l", { leaseMs: 10_000, waitMs: 0 }), TimedOut);
    await assert.rejects(Lock.acquire(keys, "l", { leaseMs: 10_000, waitMs: 500 }), NotInTime);
  });

  story("one is kept while the server restarts", async ({ server, store }) => {
    const keys = await store();
    const lock = await Lock.acquire(keys, "l", { leaseMs: 20_000 });
    await server.kill();
    await server.start();
    await assert.rejects(Lock.acquire(keys, "l", { leaseMs: 20_000, waitMs: 0 }), NotInTime);
    assert(lock.isHeld);
    await lock.release();
  });

  story("one that is given up while waiting is nobody's", async ({ store }) => {
    const keys = await store();
    const lock = await Lock.acquire(keys, "l", { leaseMs: 10_000 });
    const abort = new AbortController();
    const waiting = Lock.acquire(keys, "l", { leaseMs: 10_000, signal: abort.signal });
    await keys.get("l");
    abort.abort();
    await assert.rejects(waiting, { name: "AbortError" });
    await lock.release();
    await (await Lock.acquire(keys, "l", { leaseMs: 10_000, waitMs: 5000 })).release();
  });

  story("one is lost when its client disconnects", async ({ connect }) => {
    const client = await connect();
    const lock = await Lock.acquire(client.stateStore(), "l", { leaseMs: 500 });
    client.disconnect();
    assert.equal(await lock.lost(), "expired");
  });
});

describe("elections", () => {
  story("one of two leads and the other follows", async ({ store }) => {
    const elections = [await store(), await store()].map((keys) => new LeaderElection(keys, "leader", { leaseMs: 10_000 }));
    const [first, second] = elections;
    assert.equal(await first.leader(), undefined);
    const leaders = await second.watch();
    assert.equal(await next(leaders), undefined);
    const leadership = await first.campaign("one");
    assert.equal(text(await next(leaders)), "one");
    assert.equal(text(await second.leader()), "one");
    await assert.rejects(second.campaign("two", { waitMs: 100 }), NotInTime);
    const { token } = leadership;
    const [, other] = await Promise.all([leadership.resign(), second.campaign("two")]);
    assert(other.isHeld && other.token.isLaterThan(token));
    assert.equal(await next(leaders), undefined);
    assert.equal(text(await next(leaders)), "two");
    await other.resign();
  });
});

describe("examples", () => {
  const run = promisify(execFile);

  for (const example of readdirSync(join(PACKAGE, "examples"))) {
    story(`${example} runs`, ({ server }) => run(process.execPath, [join(PACKAGE, "examples", example), server.address]));
  }

  // As a program of somebody who has installed the package: its types are checked, and it runs.
  story("that of the page is well typed, and runs", async ({ server }) => {
    const directory = mkdtempSync(join(tmpdir(), "statehold-client-"));
    try {
      const page = readFileSync(join(PACKAGE, "README.md"), "utf8").split("```ts\n")[1].split("```")[0];
      writeFileSync(join(directory, "page.ts"), page.replace("127.0.0.1:1883", server.address));
      writeFileSync(join(directory, "package.json"), `{"type": "module"}`);
      mkdirSync(join(directory, "node_modules"));
      symlinkSync(PACKAGE, join(directory, "node_modules", "statehold"));
      const types = ["--typeRoots", join(PACKAGE, "node_modules", "@types"), "--types", "node"];
      const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", ...types];
      const tsc = join(PACKAGE, "node_modules", "typescript", "bin", "tsc");
      await run(process.execPath, [tsc, ...options, "page.ts"], { cwd: directory });
      await run(process.execPath, ["page.js"], { cwd: directory });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
