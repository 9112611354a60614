/**
 * One MQTT connection on MQTT.js: from opening it to its loss, and never again.
 *
 * The only module that knows MQTT.js. Nothing of a session is kept from one connection to the next: what has to be said again, the
 * session says again.
 */

// Its build for browsers has no other export.
import mqtt, { type IClientOptions, type IPublishPacket, type MqttClient } from "mqtt";

import { bytes } from "./bytes.js";
import { Loss, LossKind, OptionsError } from "./errors.js";
import type { CheckedOptions } from "./options.js";
import { after } from "./timer.js";

/** What MQTT says if CONNACK does not. */
const RECEIVE_MAXIMUM = 65_535;
const PACKET_SIZE_MAX = 268_435_460;
/** How long a goodbye may take. */
const CLOSE_TIMEOUT_MS = 1000;

/** A message, in or out. Always QoS 1. */
export interface Message {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly userProperties: Readonly<Record<string, string>>;
  readonly correlationData?: Uint8Array | undefined;
}

/** A message to the store. */
export interface Request extends Message {
  readonly correlationData: Uint8Array;
  readonly responseTopic: string;
  /** Message Expiry Interval in seconds. */
  readonly expiry: number;
}

/** How many bytes the PUBLISH packet of a request has at most. */
export function size(request: Request): number {
  const [fixedHeader, packetId, propertyLength] = [5, 2, 4];
  const pairs = Object.entries(request.userProperties);
  const texts = [request.topic, request.responseTopic, ...pairs.flat()];
  const strings = texts.reduce((length, text) => length + 2 + bytes(text).length, 2 + request.correlationData.length);
  const identifiers = 3 + pairs.length + 4;
  return fixedHeader + packetId + propertyLength + strings + identifiers + request.payload.length;
}

/** Who hears of what happens on a connection. */
export interface Listener {
  /** There is a connection; the server takes packets of this many bytes. */
  opened(packetSizeMax: number): void;
  /** There is none, or none any more. Nothing is reported after this. */
  lost(loss: Loss): void;
  received(message: Message): void;
  /** The server's PUBACK said no to the request of this number. */
  refused(number: number, reason: number, explanation: string): void;
  /** The server's SUBACK said no. */
  notSubscribed(filter: string, reason: number): void;
}

/** What a session needs of a connection. */
export interface Connection {
  /** Sends a request as soon as the server's Receive Maximum allows it. */
  publish(number: number, request: Request): void;
  /** Subscribes to a topic that only this client uses. */
  subscribe(filter: string): void;
  /** Says goodbye. Nothing is reported after this. */
  close(): void;
}

/** Opens a connection; the listener hears how that went. @throws OptionsError for a certificate that is none, for example. */
export type Open = (options: CheckedOptions, listener: Listener) => Connection;

export const open: Open = (options, listener) => {
  try {
    return new MqttConnection(options, listener);
  } catch (error) {
    throw new OptionsError(`${options.address} cannot be connected to with these options: ${messageOf(error)}`);
  }
};

class MqttConnection implements Connection {
  readonly #client: MqttClient;
  readonly #listener: Listener;
  readonly #waiting: [number, Request][] = [];
  #inflight = 0;
  #window = RECEIVE_MAXIMUM;
  #isOver = false;
  #loss: Loss | undefined;

  constructor(options: CheckedOptions, listener: Listener) {
    this.#listener = listener;
    this.#client = mqtt.connect(options.url, clientOptions(options));
    this.#client.on("connect", (connack) => {
      this.#window = connack.properties?.receiveMaximum ?? RECEIVE_MAXIMUM;
      if (!this.#isOver) listener.opened(connack.properties?.maximumPacketSize ?? PACKET_SIZE_MAX);
    });
    this.#client.on("message", (topic, payload, packet) => {
      if (!this.#isOver) listener.received(received(topic, payload, packet));
    });
    this.#client.on("error", (error) => this.#failed(error));
    this.#client.on("disconnect", (packet) => {
      const reason = packet.reasonCode ?? 0;
      this.#lose(new Loss(LossKind.DISCONNECTED, packet.properties?.reasonString, reason));
    });
    this.#client.on("close", () => this.#lose(new Loss(LossKind.TRANSPORT)));
  }

  publish(number: number, request: Request): void {
    this.#waiting.push([number, request]);
    this.#publishWaiting();
  }

  subscribe(filter: string): void {
    this.#client.subscribe(filter, { qos: 1, rh: 2 }, (error) => {
      const reason = reasonOf(error);
      if (reason !== undefined && !this.#isOver) this.#listener.notSubscribed(filter, reason);
    });
  }

  close(): void {
    this.#isOver = true;
    this.#waiting.length = 0;
    // A server that acknowledges nothing any more must not keep the connection.
    const giveUp = after(CLOSE_TIMEOUT_MS, () => this.#client.end(true));
    this.#client.end(false, giveUp);
  }

  #publishWaiting(): void {
    while (this.#inflight < this.#window) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#inflight += 1;
      this.#publish(...next);
    }
  }

  #publish(number: number, request: Request): void {
    // MQTT.js takes any Uint8Array, which its types do not say.
    const [payload, correlationData] = [request.payload, request.correlationData] as Buffer[] as [Buffer, Buffer];
    const properties = {
      responseTopic: request.responseTopic,
      correlationData,
      messageExpiryInterval: request.expiry,
      userProperties: { ...request.userProperties },
    };
    this.#client.publish(request.topic, payload, { qos: 1, properties }, (error, packet) => {
      this.#inflight -= 1;
      if (this.#isOver) return;
      const reason = reasonOf(error);
      if (reason !== undefined) {
        // Of a PUBACK, which the types of MQTT.js do not know here.
        const explanation = (packet as IPublishPacket | undefined)?.properties as { reasonString?: string } | undefined;
        this.#listener.refused(number, reason, explanation?.reasonString ?? messageOf(error));
      }
      this.#publishWaiting();
    });
  }

  #failed(error: Error): void {
    const reason = reasonOf(error);
    const kind = reason === undefined ? LossKind.TRANSPORT : LossKind.REFUSED;
    this.#lose(new Loss(kind, messageOf(error), reason));
  }

  #lose(loss: Loss): void {
    this.#loss ??= loss;
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.end(true);
    this.#listener.lost(this.#loss);
  }
}

function clientOptions(options: CheckedOptions): IClientOptions {
  const { ca, cert, key, servername } = options.tls;
  return {
    clientId: options.clientId,
    protocolVersion: 5,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: options.connectTimeoutMs,
    keepalive: options.keepAlive,
    resubscribe: false,
    queueQoSZero: false,
    ...(options.username !== undefined && { username: options.username }),
    ...(options.password !== undefined && { password: options.password }),
    ...(ca !== undefined && { ca: typeof ca === "string" ? ca : [...ca] }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(servername !== undefined && { servername }),
  };
}

function received(topic: string, payload: Uint8Array, packet: IPublishPacket): Message {
  const pairs = Object.entries(packet.properties?.userProperties ?? {});
  return {
    topic,
    payload,
    userProperties: Object.fromEntries(pairs.map(([name, value]) => [name, [value].flat()[0] ?? ""])),
    correlationData: packet.properties?.correlationData,
  };
}

/** Errors of several addresses have their texts inside. */
function messageOf(error: unknown): string {
  const inner = error instanceof AggregateError ? error.errors.map(messageOf).join(", ") : "";
  return error instanceof Error ? error.message || inner : "";
}

/** The reason code that an error of MQTT.js carries; those of the system carry a name, or nothing. */
function reasonOf(error: unknown): number | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "number" ? code : undefined;
}
