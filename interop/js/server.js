// A `statehold serve` of one test file's own. STATEHOLD_BIN names the binary, else it is the one that the
// main workspace built. INTEROP_ADDRESS=HOST:PORT names another broker to run the MQTT tests against.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const foreign = process.env.INTEROP_ADDRESS;

function binary() {
  if (process.env.STATEHOLD_BIN) return process.env.STATEHOLD_BIN;
  const target = join(import.meta.dirname, "..", "..", "target");
  const release = join(target, "release", "statehold");
  return existsSync(release) ? release : join(target, "debug", "statehold");
}

export class Server {
  address = foreign ?? "127.0.0.1:0";

  async start() {
    if (foreign) return;
    this.directory ??= mkdtempSync(join(tmpdir(), "statehold-interop-"));
    const data = join(this.directory, "data");
    this.process = spawn(
      binary(),
      ["serve", "--listen", this.address, "--admin", "127.0.0.1:0", "--data-dir", data],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    for await (const line of createInterface({ input: this.process.stdout })) {
      const ready = /^statehold ready mqtt=(\S+)/.exec(line);
      if (!ready) continue;
      this.address = ready[1];
      return;
    }
    throw new Error("the server ended before it was ready");
  }

  async kill() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  async stop() {
    if (foreign) return;
    await this.kill();
    rmSync(this.directory, { recursive: true });
  }
}
