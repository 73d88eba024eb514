/**
 * `deno task fuzz [requests] [seed]`: the whole service on its simulated box, asked thousands of things that its own
 * description allows, forbids and never thought of. No 500, nothing undocumented, no hang, memory flat.
 */
import { mulberry } from "../act/mulberry.ts";
import { FROM_SOURCE, RunningService } from "../e2e/running_service.ts";
import { type FuzzRequest, Generator } from "./generate.ts";
import { faults, type FuzzAnswer } from "./judge.ts";

const REQUESTS = Number(Deno.args[0] ?? 5_000);
const SEED = Number(Deno.args[1] ?? 1);
/** Requests under way at once. */
const WIDTH = 8;
/** Longer than any operation of the lab takes, queues included. */
const HANG_MS = 60_000;
/** What the service may take more between the first fifth and the last. */
const GROWTH_MB = 60;

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

async function rssMb(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap-fuzz-" });
  const service = await RunningService.start(FROM_SOURCE, { command: "demo", folder });
  const wrong = new Map<string, { count: number; example: string }>();
  const statuses = new Map<number, number>();
  const memory: number[] = [];
  let slowest = { tookMs: 0, line: "" };
  try {
    const pid = await service.pid();
    const document = await (await fetch(`${service.url}/openapi.json`)).json();
    const generator = new Generator(document, { random: mulberry(SEED), isRare: (id) => RARE.test(id) });
    let asked = 0;
    const work = async () => {
      while (asked < REQUESTS) {
        asked += 1;
        if (asked % Math.ceil(REQUESTS / 20) === 0) memory.push(await rssMb(pid));
        const request = generator.next();
        const line = `${request.method} ${request.target.slice(0, 150)} ${request.body?.slice(0, 150) ?? ""}`;
        const note = (fault: string) => {
          const key = `${request.operationId ?? request.target.slice(0, 40)}: ${fault.slice(0, 160)}`;
          const known = wrong.get(key);
          wrong.set(key, { count: (known?.count ?? 0) + 1, example: known?.example ?? line });
        };
        try {
          const answer = await ask(service.url, request);
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
          if (answer.tookMs > slowest.tookMs) slowest = { tookMs: answer.tookMs, line };
          for (const fault of faults(document, request, answer)) note(fault);
        } catch (error) {
          note(`no answer: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: WIDTH }, work));
  } finally {
    await service[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
  const defects = service.said.split("\n").filter((line) => /Defect/.test(line));
  const early = Math.max(...memory.slice(0, 4));
  const late = Math.max(...memory.slice(-4));
  console.log(
    `${REQUESTS} requests, seed ${SEED}: ${[...statuses].sort().map(([code, n]) => `${n} × ${code}`).join(", ")}`,
  );
  console.log(`slowest ${Math.round(slowest.tookMs)} ms: ${slowest.line.slice(0, 120)}`);
  console.log(`memory, MB: ${memory.map((mb) => mb.toFixed(0)).join(" ")}`);
  for (const [key, { count, example }] of wrong) console.log(`${count} × ${key}\n    ${example}`);
  for (const line of defects) console.log(line);
  const isFlat = late - early <= GROWTH_MB;
  console.log(wrong.size + defects.length === 0 && isFlat ? "ok" : "FAILED");
  Deno.exit(wrong.size + defects.length === 0 && isFlat ? 0 : 1);
}
