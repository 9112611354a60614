// Set, get, watch and lock: `node first-steps.js 127.0.0.1:1883`.
import { fileURLToPath } from "node:url";

import { Client, Lock, text } from "statehold";

export async function main(address) {
  const client = await Client.connect(address);
  const store = client.stateStore();

  await store.set("example/door", "open");
  const found = await store.get("example/door");
  console.log("the door is", text(found.value));

  const changes = await store.watch("example/door");
  await store.set("example/door", "shut");
  for await (const change of changes) {
    if (change.type !== "set") continue;
    console.log("the door is now", text(change.value));
    break;
  }

  // What is written while the lock is held carries its token: a holder who comes too late is refused.
  const lock = await Lock.acquire(store, "example/lock", { leaseMs: 10_000 });
  await store.set("example/pump", "7", { fencing: lock.token });
  await store.delete("example/pump", { fencing: lock.token });
  await lock.release();
  await store.delete("example/door");
  client.disconnect();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2] ?? "127.0.0.1:1883");
