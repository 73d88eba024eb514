/**
 * The barrier against a real card (reading only): a torch process lets go of 5–60 GB, exits or is killed, and the
 * predicate of decide/ judges the stream of the nvml Worker, while an independent reader and a process that wants the
 * memory look on. `deno run -A tests/bench/release.ts [rounds]`; needs a driver, and a python3 with torch.
 */
import { type Residual, residualOf } from "../../lib/decide/residual.ts";
import { bytesOf, isReleased, READINGS_IN_A_ROW } from "../../lib/decide/release.ts";
import type { Gpu } from "../../lib/model/ports.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { stderrLog } from "../../lib/system/log.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";

const GB = 1e9;
const SLACK_BYTES = 64 * 2 ** 20;
/** What the taker leaves free beside the holder, so that what is called freed is what it can have. */
const LEAVE_BYTES = Math.round(0.3 * GB);
const SCRIPT = new URL("./release_card.py", import.meta.url).pathname;

/** A python process that answers each command with one line. */
class Peer {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncIterator<string>;

  constructor(args: readonly string[]) {
    this.#child = new Deno.Command("python3", {
      args: ["-u", SCRIPT, ...args],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#writer = this.#child.stdin.getWriter();
    this.#lines = lines(this.#child.stdout)[Symbol.asyncIterator]();
  }

  async read(): Promise<readonly string[]> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error("Cannot go on: a python process has ended");
    return value.split(" ");
  }

  async tell(command: string): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(`${command}\n`));
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async end(): Promise<void> {
    await this.#writer.close().catch(() => {});
    await this.#child.status;
  }
}

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

type Way = "drop" | "exit" | "kill";

interface Round {
  readonly way: Way;
  readonly bytes: number;
  readonly confirmedAtMs: number;
  readonly seenAtMs: number;
  readonly readingsToConfirm: number;
  readonly slowestReadingMs: number;
  readonly tookIt: boolean;
}

const clock = systemClock();

/** Watches until the predicate has held on two readings in a row. */
function confirm(gpu: Gpu, { pid, keepsContext, bytes }: { pid: number; keepsContext: boolean; bytes: number }) {
  const armed = Promise.withResolvers<void>();
  const confirmed = Promise.withResolvers<{ atMs: number; readings: number; slowestMs: number }>();
  let base: { readonly residual: Residual; readonly held: number } | null = null;
  let streak = 0;
  let sinceFirst = 0;
  let slowestMs = 0;
  const onReading = (reading: BarrierReading) => {
    if (base === null) {
      base = { residual: { bytes: residualOf(reading), blindPids: [] }, held: bytesOf(reading, pid) ?? 0 };
      return armed.resolve();
    }
    slowestMs = Math.max(slowestMs, reading.tookMs);
    // A process that lets go stays, with its context; its bytes must have come down by what it held.
    const isBack = keepsContext
      ? (bytesOf(reading, pid) ?? Infinity) <= base.held - bytes + SLACK_BYTES
      : isReleased(reading, { targets: [pid], residual: base.residual, slackBytes: SLACK_BYTES });
    streak = isBack ? streak + 1 : 0;
    sinceFirst = streak > 0 || sinceFirst > 0 ? sinceFirst + 1 : 0;
    if (streak === READINGS_IN_A_ROW) {
      confirmed.resolve({ atMs: clock.monotonicMs(), readings: sinceFirst, slowestMs });
    }
  };
  const timer = gpu.watch(onReading, (cause) => confirmed.reject(cause));
  return { armed: armed.promise, confirmed: confirmed.promise.finally(() => timer.stop()) };
}

async function round(gpu: Gpu, peers: { watcher: Peer; taker: Peer }, way: Way): Promise<Round> {
  const bytes = Math.round((5 + Math.random() * 55) * GB);
  const holder = new Peer(["holder", String(bytes)]);
  const [, pid] = await holder.read();
  await peers.taker.tell(`fill ${LEAVE_BYTES}`);
  await peers.taker.read();
  const watch = confirm(gpu, { pid: Number(pid), keepsContext: way === "drop", bytes });
  await watch.armed;
  const used = (await gpu.read()).memory?.usedBytes ?? 0;
  await peers.watcher.tell(`arm ${used - Math.round(bytes * 0.98)}`);
  await peers.watcher.read();
  if (way === "kill") holder.kill();
  else await holder.tell(way);
  const { atMs, readings, slowestMs } = await watch.confirmed;
  await peers.taker.tell(`take ${Math.round(bytes * 0.95)}`);
  const [, took] = await peers.taker.read();
  const [, seen] = await peers.watcher.read();
  await holder.end();
  return {
    way,
    bytes,
    confirmedAtMs: atMs,
    seenAtMs: Number(seen),
    readingsToConfirm: readings,
    slowestReadingMs: slowestMs,
    tookIt: took === "1",
  };
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

function report(rounds: readonly Round[]): void {
  const lag = (entry: Round) => entry.confirmedAtMs - entry.seenAtMs;
  for (const entry of rounds) {
    console.log(
      `${entry.way.padEnd(5)} ${(entry.bytes / GB).toFixed(1).padStart(5)} GB  lag ${lag(entry).toFixed(2)} ms  ` +
        `readings ${entry.readingsToConfirm}  slowest reading ${entry.slowestReadingMs.toFixed(1)} ms  ` +
        `taken ${entry.tookIt ? "yes" : "NO"}`,
    );
  }
  const lags = rounds.map(lag);
  const early = lags.filter((ms) => ms < 0).length;
  console.log(`rounds ${rounds.length}, before the independent reader ${early}`);
  console.log(`lag median ${percentile(lags, 0.5).toFixed(2)} ms, p95 ${percentile(lags, 0.95).toFixed(2)} ms`);
  console.log(`taken at once: ${rounds.filter((entry) => entry.tookIt).length} of ${rounds.length}`);
}

if (import.meta.main) {
  const log = stderrLog({ level: "warn", format: "text" });
  const gpu = connectGpu({
    source: { kind: "library", paths: null },
    choice: { uuid: null, index: 0 },
    clock,
    log,
  });
  console.log(`${(await gpu.facts()).name}, driver ${(await gpu.facts()).driverVersion}`);
  const watcher = new Peer(["watcher"]);
  const taker = new Peer(["taker"]);
  await Promise.all([watcher.read(), taker.read()]);
  const rounds: Round[] = [];
  const ways: readonly Way[] = ["drop", "exit", "kill"];
  for (let index = 0; index < Number(Deno.args[0] ?? 30); index++) {
    rounds.push(await round(gpu, { watcher, taker }, ways[index % ways.length] ?? "exit"));
  }
  report(rounds);
  await gpu.close();
  Deno.exit(rounds.every((entry) => entry.tookIt) ? 0 : 1);
}
