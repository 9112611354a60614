// A lock with a fencing token, and why the token matters: `node lock.js 127.0.0.1:1883`.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import { Client, ErrorText, Lock, NotInTime } from "statehold";

export async function main(address) {
  const clients = [await Client.connect(address), await Client.connect(address)];
  const [first, second] = clients.map((client) => client.stateStore());

  let lock = await Lock.acquire(first, "example/lock", { leaseMs: 10_000 });
  const oldToken = lock.token;
  await first.set("example/protected", "1", { fencing: oldToken });

  // Another gets it only when it is free.
  await assert.rejects(Lock.acquire(second, "example/lock", { leaseMs: 10_000, waitMs: 0 }), NotInTime);
  [, lock] = await Promise.all([lock.release(), Lock.acquire(second, "example/lock", { leaseMs: 10_000 })]);
  assert(lock.isHeld && lock.token.isLaterThan(oldToken));
  await second.set("example/protected", "2", { fencing: lock.token });

  // One who still believes to hold the lock is too late.
  const late = first.set("example/protected", "3", { fencing: oldToken });
  await assert.rejects(late, { reason: ErrorText.FENCING_TOKEN_LOWER });

  await second.delete("example/protected", { fencing: lock.token });
  await lock.release();
  for (const client of clients) client.disconnect();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2] ?? "127.0.0.1:1883");
