// Three nodes of `statehold serve` on one machine, each with a listener for WebSocket, and admin pages with tokens or without.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { binary } from "../js/server.js";

const NODES = 3;

export class Cluster {
  #processes = [];

  async start() {
    this.directory = mkdtempSync(join(tmpdir(), "statehold-dashboard-"));
    this.tokens = join(this.directory, "tokens");
    this.read = this.#token("looker", "read");
    this.write = this.#token("operator", "write");
    // Each file is written once, before a node may read it.
    const policy = this.#write("readers.yaml", READERS);
    this.settings = this.#write("statehold.toml", settingsOf(this.tokens, policy));
    const peers = (await freePorts(NODES)).map((port) => `127.0.0.1:${port}`);
    // A node is ready when the cluster is formed, so all are started before one is waited for.
    this.#processes = peers.map((peer, index) => this.#serve(peer, peers, index));
    this.nodes = await Promise.all(this.#processes.map((process, index) => this.#ready(process, index)));
  }

  /** A new token, whose line is in the file of tokens. */
  #token(name, scope) {
    const { stdout, stderr } = spawnSync(binary(), ["admin-token", name, "--scope", scope], { encoding: "utf8" });
    appendFileSync(this.tokens, stdout);
    return /sth_\S+/.exec(stderr)[0];
  }

  #serve(peer, peers, index) {
    const options = ["--config", this.settings, "--data-dir", join(this.directory, `data${index}`), "--peer-listen", peer];
    const cluster = ["--join", peers.join(","), "--cluster-size", String(NODES), "--insecure-peers"];
    const log = openSync(this.#logOf(index), "a");
    const process = spawn(binary(), ["serve", ...options, ...cluster], { stdio: ["ignore", "pipe", log] });
    closeSync(log);
    return process;
  }

  #write(name, text) {
    const file = join(this.directory, name);
    writeFileSync(file, text);
    return file;
  }

  #logOf(index) {
    return join(this.directory, `node${index}.log`);
  }

  /** The addresses of the line that says that a node is ready. */
  async #ready(process, index) {
    for await (const line of createInterface({ input: process.stdout })) {
      if (!line.startsWith("statehold ready ")) continue;
      const node = Object.fromEntries(
        line
          .split(" ")
          .slice(2)
          .map((word) => word.split("=")),
      );
      const [ws, readers, elsewhere] = node.ws.split(",");
      return { ...node, ws, readers, elsewhere };
    }
    const lastWords = readFileSync(this.#logOf(index), "utf8").trim().split("\n").slice(-3);
    throw new Error(`node ${index} ended before the cluster was formed: ${lastWords.join("; ")}`);
  }

  /** Ends a node without a warning. */
  async kill(index) {
    const process = this.#processes[index];
    if (process.exitCode !== null || process.signalCode !== null) return;
    const ended = once(process, "exit");
    process.kill("SIGKILL");
    await ended;
  }

  async stop() {
    for (const index of this.#processes.keys()) await this.kill(index);
    rmSync(this.directory, { recursive: true });
  }
}

/** Three listeners for pages: one for everybody, one whose clients may only read keys, one for pages of another origin. */
const settingsOf = (tokens, policy) => `
[admin]
address = "127.0.0.1:0"
tokens = "${tokens}"

[[listeners]]
address = "127.0.0.1:0"

[[listeners]]
address = "127.0.0.1:0"
allow_anonymous = true
[listeners.websocket]

[[listeners]]
address = "127.0.0.1:0"
allow_anonymous = true
authorization = "readers"
[listeners.websocket]

[[listeners]]
address = "127.0.0.1:0"
allow_anonymous = true
[listeners.websocket]
allowed_origins = ["https://elsewhere.example"]

[authorization.readers]
file = "${policy}"
`;

const READERS = `
rules:
  - principals:
      clientIds: ["*"]
    brokerResources:
      - method: Connect
    stateStoreResources:
      - method: Read
        keys: ["shown/*"]
`;

/**
 * Nodes have to know each other's before they are started, so the system cannot choose when they listen. They are below those that it
 * chooses by itself for other listeners.
 */
async function freePorts(count) {
  const ports = new Set();
  while (ports.size < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
