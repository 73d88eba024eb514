/** What the way through the gate costs when nothing is held, on wall time: the same server asked directly and through it. */
import { systemClock } from "../../lib/system/clock.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import { HEAP_FLAGS } from "../tasks/tools.ts";

const SMALL_PAIRS = 3_000;
/** Until both sides are compiled. */
const WARM_UP_PAIRS = 1_000;
const GIGABYTE = 1e9;
const LARGE_PAIRS = 5;
const STREAMS = 200;
const FRAMES = 50;
const HUGE_BYTES = 10e9;
const MIB = 2 ** 20;

const clock = systemClock();

type Ask = (path: string) => Promise<void>;

/** One connection that is kept, spoken to without a client library: what it adds would hide what the gate adds. */
async function openWire(url: string): Promise<{ ask: Ask; close(): void }> {
  const { hostname, port } = new URL(url);
  const conn = await Deno.connect({ hostname, port: Number(port) });
  conn.setNoDelay();
  const buffer = new Uint8Array(65_536);
  const decoder = new TextDecoder();
  const ask = async (request: string) => {
    await conn.write(new TextEncoder().encode(request));
    for (let text = ""; !/\}$/.test(text);) {
      const count = await conn.read(buffer);
      if (count === null) throw new Error("The connection was closed");
      text += decoder.decode(buffer.subarray(0, count));
    }
  };
  return { ask, close: () => conn.close() };
}

const GET = "GET /queue HTTP/1.1\r\nHost: h\r\n\r\n";
const BODY = '{"model":"tiny","messages":[{"role":"user","content":"hi"}]}';
const POST = `POST /api/chat HTTP/1.1\r\nHost: h\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;

async function timed(run: () => Promise<unknown>): Promise<number> {
  const startMs = clock.monotonicMs();
  await run();
  return clock.monotonicMs() - startMs;
}

/** Turn by turn, first one side and then the other, so that the machine's moods fall on both. */
async function pairs(
  count: number,
  direct: () => Promise<unknown>,
  gated: () => Promise<unknown>,
): Promise<{ readonly direct: number[]; readonly gated: number[] }> {
  const took = { direct: [] as number[], gated: [] as number[] };
  for (let at = 0; at < count; at += 1) {
    const sides = at % 2 === 0 ? ["direct", "gated"] as const : ["gated", "direct"] as const;
    for (const side of sides) took[side].push(await timed(side === "direct" ? direct : gated));
  }
  return took;
}

async function small(name: string, request: string, urls: { direct: string; gated: string }): Promise<Figure[]> {
  const [direct, gated] = await Promise.all([openWire(urls.direct), openWire(urls.gated)]);
  await pairs(WARM_UP_PAIRS, () => direct.ask(request), () => gated.ask(request));
  const took = await pairs(SMALL_PAIRS, () => direct.ask(request), () => gated.ask(request));
  direct.close();
  gated.close();
  const [p99Direct, p99Gated] = [quantile(took.direct, 0.99) ?? 0, quantile(took.gated, 0.99) ?? 0];
  const [midDirect, midGated] = [median(took.direct) ?? 0, median(took.gated) ?? 0];
  const n = SMALL_PAIRS;
  return [
    { name: `${name}: added, p99 less p99`, value: p99Gated - p99Direct, unit: "ms", bar: { atMost: 1 }, n },
    { name: `${name}: p99 directly`, value: p99Direct, unit: "ms", bar: null, n },
    { name: `${name}: added, median less median`, value: midGated - midDirect, unit: "ms", bar: null, n },
  ];
}

/** Over a bare connection: a client library moves a body so slowly that the gate couldn't be seen beside it. */
async function upload(url: string, total: number): Promise<void> {
  const { hostname, port } = new URL(url);
  using conn = await Deno.connect({ hostname, port: Number(port) });
  const head = `POST /upload HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`;
  await conn.write(new TextEncoder().encode(head));
  const piece = new Uint8Array(MIB);
  for (let sent = 0; sent < total;) sent += await conn.write(piece.subarray(0, total - sent));
  const answer = await new Response(conn.readable).text();
  if (!answer.includes(`{"read":${total}}`)) throw new Error(`Not all of it arrived: ${answer}`);
}

async function download(url: string, total: number): Promise<void> {
  const { hostname, port } = new URL(url);
  using conn = await Deno.connect({ hostname, port: Number(port) });
  await conn.write(
    new TextEncoder().encode(`GET /download?n=${total} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`),
  );
  const piece = new Uint8Array(MIB);
  let bytes = 0;
  for (let count = await conn.read(piece); count !== null; count = await conn.read(piece)) bytes += count;
  // The head comes on top.
  if (bytes < total) throw new Error(`${bytes} of ${total} bytes arrived`);
}

async function large(urls: { direct: string; gated: string }): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [name, move] of [["upload", upload], ["download", download]] as const) {
    const took = await pairs(LARGE_PAIRS, () => move(urls.direct, GIGABYTE), () => move(urls.gated, GIGABYTE));
    const ratios = took.direct.map((ms, at) => ms / (took.gated[at] ?? Infinity));
    const rate = GIGABYTE / 1e6 / (median(took.direct) ?? Infinity);
    figures.push(
      { name: `1 GB ${name}, × direct`, value: median(ratios), unit: "×", bar: { atLeast: 0.8 }, n: LARGE_PAIRS },
      { name: `1 GB ${name}, direct`, value: rate, unit: "GB/s", bar: null, n: LARGE_PAIRS },
    );
  }
  return figures;
}

/** How late each frame of 200 streams at once arrives. */
async function streams(url: string): Promise<readonly number[]> {
  const lateMs: number[] = [];
  await Promise.all(Array.from({ length: STREAMS }, async () => {
    const response = await fetch(`${url}/stream?n=${FRAMES}`);
    const decoder = new TextDecoderStream();
    let rest = "";
    for await (const text of response.body?.pipeThrough(decoder) ?? []) {
      const nowMs = clock.monotonicMs();
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) lateMs.push(nowMs - Number(line));
    }
  }));
  return lateMs;
}

async function concurrent(urls: { direct: string; gated: string }): Promise<Figure[]> {
  const direct = await streams(urls.direct);
  const gated = await streams(urls.gated);
  const added = (share: number) => (quantile(gated, share) ?? NaN) - (quantile(direct, share) ?? NaN);
  const n = gated.length;
  return [
    {
      name: `${STREAMS} streams at once: frames that arrived`,
      value: n,
      unit: "",
      bar: { atLeast: STREAMS * FRAMES },
      n,
    },
    { name: `${STREAMS} streams at once: a frame later, median`, value: added(0.5), unit: "ms", bar: null, n },
    { name: `${STREAMS} streams at once: a frame later, p99`, value: added(0.99), unit: "ms", bar: null, n },
  ];
}

async function huge({ url, rssBytes }: End): Promise<Figure[]> {
  const before = rssBytes();
  let most = before;
  const timer = clock.every(50, () => most = Math.max(most, rssBytes()));
  const ms = await timed(() => upload(url, HUGE_BYTES));
  timer.stop();
  return [
    {
      name: "10 GB upload: the gate's memory more",
      value: (most - before) / MIB,
      unit: "MiB",
      bar: { atMost: 128 },
      n: 1,
    },
    { name: "10 GB upload", value: HUGE_BYTES / 1e6 / ms, unit: "GB/s", bar: null, n: 1 },
  ];
}

interface End {
  readonly url: string;
  rssBytes(): number;
  stop(): Promise<void>;
}

async function openEnd(before: string | null): Promise<End> {
  const script = new URL("./gate_endpoints.ts", import.meta.url).pathname;
  // The gate as it is shipped, the server as anybody's.
  const args = ["run", "-A", "-q", ...before === null ? [script] : [HEAP_FLAGS, script, before]];
  const child = new Deno.Command(Deno.execPath(), { args, stdout: "piped" }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await output.read();
    if (done) throw new Error("An end of the bench didn't open");
    text += value;
  }
  return {
    url: text.trim(),
    rssBytes: () =>
      Number(/^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${child.pid}/status`))?.[1]) * 1_024,
    stop: async () => {
      child.kill();
      await output.cancel();
      await child.status;
    },
  };
}

export const bench: Bench = {
  name: "gate_bytes",
  about: "requests, gigabytes and streams through the gate, beside asking the same server directly",
  async measure(): Promise<readonly Figure[]> {
    const server = await openEnd(null);
    const gate = await openEnd(server.url);
    const urls = { direct: server.url, gated: gate.url };
    try {
      return [
        ...await small("small request", GET, urls),
        ...await small("small request that is offered", POST, urls),
        ...await large(urls),
        ...await concurrent(urls),
        ...await huge(gate),
      ];
    } finally {
      await gate.stop();
      await server.stop();
    }
  },
};
