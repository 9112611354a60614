/** Hybrid logical clock timestamps: versions of keys, fencing tokens, and what requests are stamped with. */

const TEXT = /^([0-9]+):([0-9]+):([^:\0]+)$/;
const encoder = new TextEncoder();

/**
 * A hybrid logical clock timestamp, ordered by wall, then counter, then node.
 *
 * A version is one, and so is a fencing token: of two, the later holder of a lock has the greater.
 */
export class Hlc {
  constructor(
    /** Milliseconds since the Unix epoch. */
    readonly wall: number,
    /** Orders timestamps of the same millisecond. */
    readonly counter: number,
    /** Who made it; not empty, without a colon. */
    readonly node: string,
  ) {}

  /**
   * Reads `wall:counter:node`, with wall and counter in decimal of any width up to 2^53 - 1.
   *
   * @throws RangeError if the text is none.
   */
  static parse(text: string): Hlc {
    const [, wall, counter, node] = TEXT.exec(text) ?? [];
    const hlc = new Hlc(Number(wall), Number(counter), node ?? "");
    if (!Number.isSafeInteger(hlc.wall) || !Number.isSafeInteger(hlc.counter)) {
      throw new RangeError(`${JSON.stringify(text)} is not a timestamp of the form wall:counter:node`);
    }
    return hlc;
  }

  /** Less than 0 if this one is earlier, 0 if they are the same, greater than 0 if it is later. */
  compare(other: Hlc): number {
    return this.wall - other.wall || this.counter - other.counter || compareBytes(this.node, other.node);
  }

  isLaterThan(other: Hlc): boolean {
    return this.compare(other) > 0;
  }

  toString(): string {
    return `${this.wall}:${this.counter}:${this.node}`;
  }
}

/** By their UTF-8, which is not the order of JavaScript's own comparison. */
function compareBytes(one: string, other: string): number {
  const [left, right] = [encoder.encode(one), encoder.encode(other)];
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at < 0 ? left.length - right.length : (left[at] ?? 0) - (right[at] ?? -1);
}

/**
 * What a client stamps its requests with. Every timestamp is greater than the one before.
 *
 * A clock that ran ahead of the wall time by more than a minute starts over from it: the server would refuse what it stamps.
 */
export class HlcClock {
  static readonly AHEAD_MAX_MS = 60_000;
  /** One of the official clients reads counters as 32-bit integers with a sign. */
  static readonly COUNTER_LIMIT = 2 ** 31;

  readonly #node: string;
  #wall = 0;
  #counter = 0;

  constructor(clientId: string) {
    // A colon would not fit into a timestamp.
    this.#node = clientId.replaceAll(":", "-") || "client";
  }

  /** The next timestamp, at `wallMs` milliseconds since the Unix epoch. */
  now(wallMs: number): Hlc {
    if (wallMs > this.#wall || this.#wall > wallMs + HlcClock.AHEAD_MAX_MS) {
      [this.#wall, this.#counter] = [wallMs, 0];
    } else if (this.#counter + 1 < HlcClock.COUNTER_LIMIT) {
      this.#counter += 1;
    } else {
      [this.#wall, this.#counter] = [this.#wall + 1, 0];
    }
    return new Hlc(this.#wall, this.#counter, this.#node);
  }
}
