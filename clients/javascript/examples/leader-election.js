// One leader of two candidates, and somebody who watches: `node leader-election.js 127.0.0.1:1883`.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import { Client, LeaderElection, text } from "statehold";

export async function main(address) {
  const clients = [await Client.connect(address), await Client.connect(address)];
  const [first, second] = clients.map(
    (client) => new LeaderElection(client.stateStore(), "example/leader", { leaseMs: 10_000 }),
  );

  const leaders = await second.watch();
  assert.equal((await leaders.next()).value, undefined, "nobody leads");
  let leadership = await first.campaign("controller-1");
  assert.equal(text((await leaders.next()).value), "controller-1");

  [, leadership] = await Promise.all([leadership.resign(), second.campaign("controller-2")]);
  for await (const leader of leaders) if (leader && text(leader) === "controller-2") break;
  await leadership.resign();
  for (const client of clients) client.disconnect();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2] ?? "127.0.0.1:1883");
