/**
 * `deno task fuzz [requests] [seed]`: the whole service on its simulated box, in a process of its own, asked thousands of
 * things that its own description allows, forbids and never thought of. No 500, nothing undocumented, no hang, memory
 * flat: after a warm-up neither RSS nor what is alive after a collection grows with the requests.
 */
import { mulberry } from "../act/mulberry.ts";
import { freePort, FROM_SOURCE, RunningService } from "../e2e/running_service.ts";
import { type FuzzRequest, Generator } from "./generate.ts";
import { faults, type FuzzAnswer } from "./judge.ts";
import { MemoryProbe } from "./memory_probe.ts";

const REQUESTS = Number(Deno.args[0] ?? 5_000);
const SEED = Number(Deno.args[1] ?? 1);
/** Requests under way at once. */
const WIDTH = 8;
/** Longer than any operation of the lab takes, queues included. */
const HANG_MS = 60_000;
/**
 * Asked before memory is judged, and judged by everything else: until everything that is kept to a bound is full (runs,
 * decisions, events) and the heaps of the service's five threads have found their size.
 */
const WARM_UP = 2_000;
/** What the service may take more between the first fifth and the last. */
const GROWTH_MB = 60;
/** What may stay alive of a thousand requests: the box has a life of its own meanwhile, which alone comes to 0.3. */
const KEPT_MB_PER_THOUSAND = 1;

/** Operations that wait for the card, a tenant or the disk. */
const RARE =
  /^(switch-model|free-vram|comfy-free|request-vram|warm|benchmark|pin|unpin|set-pinned|sweep|autotune|run-sweep|restore)/;

async function ask(url: string, request: FuzzRequest): Promise<FuzzAnswer> {
  const fromMs = performance.now();
  const { method, headers, body } = request;
  const response = await fetch(`${url}${request.target}`, {
    method,
    headers,
    redirect: "manual",
    signal: AbortSignal.timeout(HANG_MS),
    ...(body === null ? {} : { body: body.toWellFormed() }),
  });
  const contentType = response.headers.get("content-type") ?? "";
  const isStream = contentType.startsWith("text/event-stream");
  if (isStream) await response.body?.cancel();
  const text = isStream ? "" : await response.text();
  return { status: response.status, contentType, text, tookMs: performance.now() - fromMs };
}

/** What was wrong, each kind once with how often and an example. */
class Faults {
  readonly #found = new Map<string, { count: number; example: string }>();

  note(request: FuzzRequest, fault: string): void {
    const key = `${request.operationId ?? request.target.slice(0, 40)}: ${fault.slice(0, 160)}`;
    const known = this.#found.get(key);
    this.#found.set(key, { count: (known?.count ?? 0) + 1, example: known?.example ?? lineOf(request) });
  }

  get lines(): readonly string[] {
    return [...this.#found].map(([key, { count, example }]) => `${count} × ${key}\n    ${example}`);
  }
}

function lineOf({ method, target, body }: FuzzRequest): string {
  return `${method} ${target.slice(0, 150)} ${body?.slice(0, 150) ?? ""}`;
}

interface Asked {
  readonly statuses: Map<number, number>;
  slowest: { readonly tookMs: number; readonly line: string };
}

interface Round {
  readonly url: string;
  // deno-lint-ignore no-explicit-any -- an OpenAPI document is whatever JSON it holds
  readonly document: any;
  readonly generator: Generator;
  readonly faults: Faults;
  readonly asked: Asked;
}

/** Some at a time; `each` is called before each request. */
async function askMany(
  { url, document, generator, faults: found, asked }: Round,
  count: number,
  each = async (_n: number) => {},
) {
  let n = 0;
  const work = async () => {
    while (n < count) {
      n += 1;
      await each(n);
      const request = generator.next();
      try {
        const answer = await ask(url, request);
        asked.statuses.set(answer.status, (asked.statuses.get(answer.status) ?? 0) + 1);
        if (answer.tookMs > asked.slowest.tookMs) asked.slowest = { tookMs: answer.tookMs, line: lineOf(request) };
        for (const fault of faults(document, request, answer)) found.note(request, fault);
      } catch (error) {
        found.note(request, `no answer: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: WIDTH }, work));
}

async function rssMb(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap-fuzz-" });
  const inspector = freePort();
  const { path, args: [run = "", ...args] } = FROM_SOURCE;
  const program = { path, args: [run, `--inspect=127.0.0.1:${inspector}`, ...args] };
  const service = await RunningService.start(program, { command: "demo", folder });
  const found = new Faults();
  const asked: Asked = { statuses: new Map(), slowest: { tookMs: 0, line: "" } };
  const rss: number[] = [];
  const heap: number[] = [];
  try {
    const pid = await service.pid();
    const probe = await MemoryProbe.open(inspector);
    const document = await (await fetch(`${service.url}/openapi.json`)).json();
    const generator = new Generator(document, { random: mulberry(SEED), isRare: (id) => RARE.test(id) });
    const round = { url: service.url, document, generator, faults: found, asked };
    await askMany(round, WARM_UP);
    heap.push((await probe.read()).heapMb);
    await askMany(round, REQUESTS, async (n) => {
      if (n % Math.ceil(REQUESTS / 20) === 0) rss.push(await rssMb(pid));
    });
    heap.push((await probe.read()).heapMb);
    probe.close();
  } finally {
    await service[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
  const defects = service.said.split("\n").filter((line) => /Defect/.test(line));
  const grownMb = Math.max(...rss.slice(-4)) - Math.max(...rss.slice(0, 4));
  const [before = NaN, after = NaN] = heap;
  const keptMb = (after - before) / (REQUESTS / 1_000);
  const statuses = [...asked.statuses].sort(([one], [other]) => one - other);
  console.log(
    `${WARM_UP} + ${REQUESTS} requests, seed ${SEED}: ${statuses.map(([code, n]) => `${n} × ${code}`).join(", ")}`,
  );
  console.log(`slowest ${Math.round(asked.slowest.tookMs)} ms: ${asked.slowest.line.slice(0, 120)}`);
  console.log(`RSS, MB: ${rss.map((mb) => mb.toFixed(0)).join(" ")}: ${grownMb.toFixed(1)} more (bar ${GROWTH_MB})`);
  console.log(
    `alive after a collection, MB: ${before.toFixed(1)}, then ${after.toFixed(1)}: ` +
      `${keptMb.toFixed(2)} more per 1,000 requests (bar ${KEPT_MB_PER_THOUSAND})`,
  );
  for (const line of [...found.lines, ...defects]) console.log(line);
  const isFlat = grownMb <= GROWTH_MB && keptMb <= KEPT_MB_PER_THOUSAND;
  const isOk = found.lines.length + defects.length === 0 && isFlat;
  console.log(isOk ? "ok" : "FAILED");
  Deno.exit(isOk ? 0 : 1);
}
