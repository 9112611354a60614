// A `statehold serve` of one test file's own. STATEHOLD_BIN names the binary, else it is the one that the
// main workspace built. INTEROP_ADDRESS=HOST:PORT names another broker to run the MQTT tests against.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const foreign = process.env.INTEROP_ADDRESS;

export function binary() {
  if (process.env.STATEHOLD_BIN) return process.env.STATEHOLD_BIN;
  const target = join(import.meta.dirname, "..", "..", "target");
  const release = join(target, "release", "statehold");
  return existsSync(release) ? release : join(target, "debug", "statehold");
}

export class Server {
  address = foreign ?? "127.0.0.1:0";

  /** With a settings file, whose listeners stay where they are over restarts if `settings` takes their addresses. */
  constructor(settings) {
    this.settings = settings;
  }

  async start() {
    if (foreign) return;
    this.directory ??= mkdtempSync(join(tmpdir(), "statehold-interop-"));
    const options = ["--admin", "127.0.0.1:0", "--data-dir", join(this.directory, "data"), ...this.#listeners()];
    this.process = spawn(binary(), ["serve", ...options], { stdio: ["ignore", "pipe", "ignore"] });
    for await (const line of createInterface({ input: this.process.stdout })) {
      if (!line.startsWith("statehold ready ")) continue;
      this.addresses = Object.fromEntries(line.split(" ").slice(2).map((word) => word.split("=")));
      this.address = this.addresses.mqtt;
      return;
    }
    throw new Error("the server ended before it was ready");
  }

  #listeners() {
    if (!this.settings) return ["--listen", this.address];
    const file = join(this.directory, "statehold.toml");
    writeFileSync(file, this.settings(this.addresses));
    return ["--config", file];
  }

  /** No warning, no flush. One that was killed before stays so. */
  async kill() {
    if (this.process.signalCode) return;
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
