/** 1,000 dashboards on the live stream, 50 of them stuck: what they cost the service, and what they cost its sampler. */
import { openLibc } from "../../ffi/libc.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { stderrLog } from "../../lib/system/log.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import type { Frame } from "../../lib/operations/frames.ts";
import type { Feed } from "../../lib/operations/operation.ts";
import { stream } from "../../lib/operations/stream.ts";
import { DEFAULT_ACCESS, peerOf } from "../../lib/show/access.ts";
import { returnMemory } from "../../lib/show/memory_return.ts";
import { openRest } from "../../lib/show/rest.ts";
import { StreamHub } from "../../lib/show/sse.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import type { Heard } from "./sse_clients.ts";

const READING = 950;
const STUCK = 50;
const PAD_BYTES = 65_536;
const CONTROL_S = 20;
/** Until what the kernel takes for a client that doesn't read is full: some 70 frames. */
const FILLING_S = 45;
const RUN_S = 60;
const REST_S = 15;
const AGAIN_S = 15;
const TICKS_PER_S = 100;

export const bench: Bench = {
  name: "sse",
  about:
    `${READING} clients that read and ${STUCK} that never do, at 1 Hz for ${RUN_S} s, beside ${CONTROL_S} s without`,
  async measure(): Promise<readonly Figure[]> {
    await using served = await serve();
    const control = await observe(served, CONTROL_S);
    const before = memory();
    const clients = await openClients(served.port);
    await sleep(FILLING_S * 1000);
    const run = await observe(served, RUN_S);
    const { missedFrames } = served.padded.counts;
    const heard = await clients.end();
    await sleep(REST_S * 1000);
    const after = memory();
    const again = await openClients(served.port);
    const second = await observe(served, AGAIN_S);
    await again.end();
    return figuresOf({ control, run, second, before, after, missedFrames, heard });
  },
};

interface Measured {
  readonly control: Observed;
  readonly run: Observed;
  readonly second: Observed;
  readonly before: Memory;
  readonly after: Memory;
  readonly missedFrames: number;
  readonly heard: Heard;
}

function figuresOf({ control, run, second, before, after, missedFrames, heard }: Measured): readonly Figure[] {
  const errors = run.periodErrorsMs.length;
  const extraMs = (share: number) =>
    (quantile(run.periodErrorsMs, share) ?? 0) - (quantile(control.periodErrorsMs, share) ?? 0);
  const grownMb = run.rssMb - before.rssMb;
  const frames = heard.frameBytes;
  return [
    { name: "CPU", value: run.cpuPct, unit: "% of a core", bar: { atMost: 5 }, n: RUN_S, note: "the whole service" },
    { name: "CPU without clients", value: control.cpuPct, unit: "% of a core", bar: null, n: CONTROL_S },
    {
      name: "sampler's period error, p95, above control",
      value: extraMs(0.95),
      unit: "ms",
      bar: { atMost: 20 },
      n: errors,
    },
    {
      name: "sampler's period error, most, above control",
      value: extraMs(1),
      unit: "ms",
      bar: { atMost: 20 },
      n: errors,
    },
    { name: "frames missed by who never reads", value: missedFrames, unit: "", bar: { atLeast: 1 }, n: STUCK },
    {
      name: "frames of the reader with the fewest",
      value: heard.fewestFrames,
      unit: "",
      bar: { atLeast: RUN_S - 2 },
      n: READING,
    },
    { name: "steady frame, median", value: median(frames), unit: "bytes", bar: { atMost: 1200 }, n: frames.length },
    {
      name: "steady frame, p95",
      value: quantile(frames, 0.95),
      unit: "bytes",
      bar: { atMost: 1200 },
      n: frames.length,
    },
    { name: "memory taken while they are there", value: grownMb, unit: "MB", bar: { atMost: 250 }, n: 1, note: "RSS" },
    {
      name: "objects kept after they left",
      value: after.heapMb - before.heapMb,
      unit: "MB",
      bar: { atMost: 20 },
      n: 1,
    },
    {
      name: "memory after they left",
      value: after.rssMb - before.rssMb,
      unit: "MB",
      bar: { atMost: 60 },
      n: 1,
      note: "RSS",
    },
    {
      name: "memory a second thousand adds to the first",
      value: second.rssMb - run.rssMb,
      unit: "MB",
      bar: { atMost: 25 },
      n: 1,
      note: "RSS",
    },
  ];
}

interface Served extends AsyncDisposable {
  readonly port: number;
  readonly padded: StreamHub;
  /** Called with each sample's time. */
  onSample: ((atMs: number) => void) | null;
}

/** The house on an idle simulated box, behind the door as `serve` opens it, with a padded stream beside. */
async function serve(): Promise<Served> {
  const clock = systemClock();
  const log = stderrLog({ level: "error", format: "text" });
  const lab = await openLabHouse({
    clock,
    store: memoryStore(),
    seed: 7,
    settle: (promise) => promise,
    gpu: (box) =>
      connectGpu({
        source: { kind: "simulated", table: box.table.buffer },
        choice: { uuid: null, index: 0 },
        clock,
        log,
      }),
  });
  const { services } = lab.house;
  const report = (error: unknown) => {
    throw error;
  };
  const libc = openLibc();
  const door = openRest({ services, clock, report, access: () => DEFAULT_ACCESS, assets: new Map() });
  const padded = new StreamHub({ services, clock, feed: paddedStream() });
  const returning = returnMemory({ clock, streams: () => door.streams.clients, trim: () => libc.trimMemory() });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request, { remoteAddr }) => {
    return new URL(request.url).pathname === "/padded" ? padded.open() : door.fetch(request, peerOf(remoteAddr));
  });
  const served: Served = {
    port: server.addr.port,
    padded,
    onSample: null,
    async [Symbol.asyncDispose]() {
      watching.stop();
      returning.stop();
      padded.close();
      await door.close();
      await server.shutdown();
      await lab[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
    },
  };
  let lastMs = 0;
  const watching = services.live.subscribe(({ sample: { atMs } }) => {
    if (atMs !== lastMs) served.onSample?.(atMs);
    lastMs = atMs;
  });
  return served;
}

/** The stream with frames that fill buffers soon. */
function paddedStream(): Feed {
  const padding = "x".repeat(PAD_BYTES);
  const pad = (frame: Frame): Frame =>
    frame.event === "snapshot"
      ? frame
      : { ...frame, data: { ...frame.data, set: { ...frame.data.set, "/pad": padding } } };
  return {
    ...stream,
    follow: (services, raw, to) =>
      // The stream's items are frames by its schema.
      stream.follow(services, raw, { emit: (item) => to.emit(pad(item as Frame)), end: to.end }),
  };
}

interface Observed {
  readonly cpuPct: number;
  readonly rssMb: number;
  readonly periodErrorsMs: readonly number[];
}

async function observe(served: Served, seconds: number): Promise<Observed> {
  const times: number[] = [];
  served.onSample = (atMs) => times.push(atMs);
  const [fromTicks, fromMs] = [cpuTicks(), performance.now()];
  await sleep(seconds * 1000);
  const cpuS = (cpuTicks() - fromTicks) / TICKS_PER_S;
  served.onSample = null;
  return {
    cpuPct: (100 * cpuS) / ((performance.now() - fromMs) / 1000),
    rssMb: memory().rssMb,
    periodErrorsMs: times.slice(1).map((atMs, n) => Math.abs(atMs - (times[n] ?? atMs) - 1000)),
  };
}

/** User and system time of this process with all its threads. */
function cpuTicks(): number {
  const fields = Deno.readTextFileSync("/proc/self/stat").split(") ")[1]?.split(" ") ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

interface Memory {
  readonly rssMb: number;
  readonly heapMb: number;
}

function memory(): Memory {
  const { rss, heapUsed, external } = Deno.memoryUsage();
  return { rssMb: rss / 1e6, heapMb: (heapUsed + external) / 1e6 };
}

/** Both kinds of clients, each kind a process; resolves once all are connected. */
async function openClients(port: number): Promise<{ end(): Promise<Heard> }> {
  const [reading, stuck] = [start(port, "/api/stream", READING, "read"), start(port, "/padded", STUCK, "stall")];
  await Promise.all([reading.ready, stuck.ready]);
  return {
    async end() {
      const [heard] = await Promise.all([reading.end(), stuck.end()]);
      return heard;
    },
  };
}

function start(port: number, ...[path, count, mode]: readonly [string, number, string]) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", new URL("./sse_clients.ts", import.meta.url).pathname, String(port), path, String(count), mode],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let said = "";
  const until = async (isThere: () => boolean) => {
    while (!isThere()) {
      const { done, value } = await lines.read();
      if (done) break;
      said += value;
    }
  };
  return {
    ready: until(() => said.includes("ready\n")),
    async end(): Promise<Heard> {
      await child.stdin.close();
      await until(() => false);
      await child.status;
      // What the clients' own code printed.
      return JSON.parse(said.replace("ready\n", "")) as Heard;
    },
  };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
