/**
 * Pictures that a real ComfyUI sends over its WebSocket arrive through the gate byte for byte, and so does what a client
 * says. Runs where somebody started one.
 */
import assert from "node:assert/strict";
import { openGate } from "../../lib/gate/gate.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { OPEN } from "./pairs.ts";

const comfyui = Deno.env.get("HYPERSWAP_TEST_COMFYUI") ?? "";

/** All that went over one connection, each way. */
interface Tape {
  up: Uint8Array[];
  down: Uint8Array[];
}

interface Frame {
  readonly opcode: number;
  readonly payload: Uint8Array;
}

/** Passes on to ComfyUI what the gate sends it, and keeps a copy. */
function tapBefore(url: string): { readonly url: string; readonly tapes: Tape[]; close(): void } {
  const { hostname, port } = new URL(url);
  const tapes: Tape[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const pump = async (from: Deno.Conn, to: Deno.Conn, kept: Uint8Array[]) => {
    await from.readable.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(bytes, controller) {
          kept.push(bytes.slice());
          controller.enqueue(bytes);
        },
      }),
    ).pipeTo(to.writable).catch(() => {
      // One end closed it: that ends the other.
    });
  };
  void (async () => {
    for await (const conn of listener) {
      const tape: Tape = { up: [], down: [] };
      tapes.push(tape);
      const server = await Deno.connect({ hostname, port: Number(port) });
      void pump(conn, server, tape.up);
      void pump(server, conn, tape.down);
    }
  })();
  return { url: `http://127.0.0.1:${listener.addr.port}`, tapes, close: () => listener.close() };
}

/** A WebSocket by hand, so that its bytes are known. */
class Observer {
  readonly tape: Tape = { up: [], down: [] };
  readonly #conn: Deno.Conn;

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  static async open(url: string, clientId: string, fields: readonly string[]): Promise<Observer> {
    const { host, hostname, port } = new URL(url);
    const observer = new Observer(await Deno.connect({ hostname, port: Number(port) }));
    const lines = [
      `GET /ws?clientId=${clientId} HTTP/1.1`,
      `Host: ${host}`,
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "Sec-WebSocket-Version: 13",
      ...fields,
    ];
    await observer.send(new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`));
    await observer.until((text) => text.includes("\r\n\r\n"));
    return observer;
  }

  async send(bytes: Uint8Array): Promise<void> {
    this.tape.up.push(bytes);
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(bytes.subarray(at));
  }

  /** A masked frame of whatever size. */
  async say(opcode: number, payload: Uint8Array): Promise<void> {
    const mask = [0x11, 0x22, 0x33, 0x44];
    const length = payload.length < 126
      ? [0x80 | payload.length]
      : payload.length < 65_536
      ? [0xfe, payload.length >> 8, payload.length & 255]
      : [0xff, 0, 0, 0, 0, ...[24, 16, 8, 0].map((shift) => (payload.length >> shift) & 255)];
    const head = [0x80 | opcode, ...length, ...mask];
    const frame = new Uint8Array(head.length + payload.length);
    frame.set(head);
    payload.forEach((byte, at) => frame[head.length + at] = byte ^ (mask[at % 4] ?? 0));
    await this.send(frame);
  }

  async until(holds: (text: string, bytes: Uint8Array) => boolean): Promise<void> {
    const buffer = new Uint8Array(65_536);
    for (let all = joined(this.tape.down); !holds(latin1(all), all); all = joined(this.tape.down)) {
      const count = await this.#conn.read(buffer);
      assert.ok(count !== null, "the connection was closed");
      this.tape.down.push(buffer.slice(0, count));
    }
  }

  close(): void {
    this.#conn.close();
  }
}

const latin1 = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Behind the handshake's head. */
function frameBytes(parts: readonly Uint8Array[]): Uint8Array {
  const all = joined(parts);
  return all.subarray(latin1(all).indexOf("\r\n\r\n") + 4);
}

/** A server's frames, none of them masked. */
function framesOf(bytes: Uint8Array): Frame[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const frames: Frame[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const short = view.getUint8(at + 1);
    const [length, head] = short < 126
      ? [short, 2]
      : short === 126
      ? [view.getUint16(at + 2), 4]
      : [Number(view.getBigUint64(at + 2)), 10];
    frames.push({ opcode: view.getUint8(at) & 15, payload: bytes.slice(at + head, at + head + length) });
    at += head + length;
  }
  return frames;
}

/** Three pictures of different colours and sizes, made without any model and sent over the socket alone. */
const PICTURES = Object.fromEntries(
  [[64, 0xff0000], [512, 0x00ff00], [1_024, 0x123456]].flatMap(([side, color], at) => [
    [`${2 * at}`, { class_type: "EmptyImage", inputs: { width: side, height: side, batch_size: 3, color } }],
    [`${2 * at + 1}`, { class_type: "SaveImageWebsocket", inputs: { images: [`${2 * at}`, 0] } }],
  ]),
);

/** Runs the pictures for one client and gives what went over its socket. */
async function record(url: string, fields: readonly string[]): Promise<Tape> {
  const clientId = crypto.randomUUID();
  const observer = await Observer.open(url, clientId, fields);
  const flags = { type: "feature_flags", data: { supports_preview_metadata: true } };
  await observer.say(1, new TextEncoder().encode(JSON.stringify(flags)));
  // ComfyUI takes no notice of these; they have to arrive all the same.
  for (const length of [0, 125, 126, 65_535, 300_000]) await observer.say(2, new Uint8Array(length).fill(length & 255));
  await observer.say(9, new TextEncoder().encode("still there?"));
  const body = JSON.stringify({ prompt: PICTURES, client_id: clientId });
  const response = await fetch(`${url}/prompt`, { method: "POST", body });
  assert.equal(response.status, 200, await response.text());
  // Deflated text can't be read here; the pictures can be counted.
  const isDeflated = fields.length > 0;
  await observer.until((_text, bytes) => isDeflated ? pictures(bytes) >= 9 : ends(bytes));
  observer.close();
  return observer.tape;
}

const pictures = (bytes: Uint8Array) => framesOf(frameBytes([bytes])).filter(({ opcode }) => opcode === 2).length;

function ends(bytes: Uint8Array): boolean {
  return framesOf(frameBytes([bytes])).some(({ opcode, payload }) =>
    opcode === 1 && /"type": "executing", "data": \{"node": null/.test(latin1(payload))
  );
}

for (const fields of [[], ["Sec-WebSocket-Extensions: permessage-deflate"]]) {
  Deno.test({
    name: `pictures over a real ComfyUI's WebSocket arrive as they were sent${
      fields.length > 0 ? ", deflated too" : ""
    }`,
    ignore: comfyui === "",
    fn: async () => {
      const direct = await record(comfyui, fields);
      const tap = tapBefore(comfyui);
      const log = { debug() {}, info() {}, warn() {}, error: (message: string) => assert.fail(message) };
      const side = { listen: "127.0.0.1:0", url: tap.url };
      const gate = await openGate({ ollama: null, comfyui: side, admission: OPEN, clock: systemClock(), log });
      try {
        const gated = await record(gate.urls.comfyui ?? "", fields);
        const tape = tap.tapes.find(({ up }) => latin1(joined(up)).startsWith("GET /ws?"));
        assert.ok(tape);
        // What ComfyUI sent, to the last byte that the client waited for; what the client said, all of it.
        const down = frameBytes(gated.down);
        assert.ok(down.length > 9 * 64, `${down.length} bytes`);
        assert.deepEqual(frameBytes(tape.down).subarray(0, down.length), down);
        assert.deepEqual(frameBytes(tape.up), frameBytes(gated.up));
        if (fields.length > 0) return;
        const binary = ({ down: bytes }: Tape) => framesOf(frameBytes(bytes)).filter(({ opcode }) => opcode === 2);
        assert.equal(binary(direct).length, 9);
        assert.deepEqual(binary(gated).map(imageOf), binary(direct).map(imageOf));
      } finally {
        await gate.close(AbortSignal.abort());
        tap.close();
      }
    },
  });
}

/** The picture behind its metadata (u32 4, u32 length, JSON), which names the prompt. */
function imageOf({ payload }: Frame): Uint8Array {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  assert.equal(view.getUint32(0), 4, "a preview with metadata");
  return payload.subarray(8 + view.getUint32(4));
}
