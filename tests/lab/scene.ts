/** What the lab's own tests need beside the lab: a small machine without servers, and requests that say what came back. */
import { PageCache } from "../../lib/lab/page_cache.ts";
import { type CardSpec, RTX_4080_SUPER } from "../../lib/lab/card_spec.ts";
import type { Ground } from "../../lib/lab/ground.ts";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { MEASURED_SILICON, paceOf } from "../../lib/lab/pace.ts";
import { ProcTree } from "../../lib/lab/proc_tree.ts";
import { Random } from "../../lib/lab/random.ts";
import { type Profile, TIMINGS } from "../../lib/lab/timing.ts";
import { Vram } from "../../lib/lab/vram.ts";

export interface Scene extends Disposable {
  readonly clock: LabClock;
  readonly ground: Ground;
  /** What the lab's own code threw; a test ends by looking that there was nothing. */
  readonly errors: unknown[];
}

export function openScene(options: { profile?: Profile; card?: CardSpec; seed?: number; holds?: boolean } = {}): Scene {
  const root = Deno.makeTempDirSync({ prefix: "hyperswap-lab-" });
  const clock = new LabClock({ seed: options.seed ?? 1 });
  const table = new GpuTable(options.card ?? RTX_4080_SUPER);
  const errors: unknown[] = [];
  const ground: Ground = {
    clock,
    random: new Random(options.seed ?? 1),
    table,
    vram: new Vram({ table, clock }),
    processes: new ProcTree({ root, clock }),
    pageCache: new PageCache({ budgetBytes: 44e9 }),
    pace: paceOf(RTX_4080_SUPER, MEASURED_SILICON, 1),
    timing: TIMINGS[options.profile ?? "h200"],
    driverHolds: options.holds ?? false,
    onError: (error) => errors.push(error),
  };
  return { clock, ground, errors, [Symbol.dispose]: () => Deno.removeSync(root, { recursive: true }) };
}

export interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
  /** Lab time from the request to the last byte. */
  readonly tookMs: number;
}

export interface Ask {
  readonly method?: string;
  readonly body?: unknown;
  readonly raw?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Sends one request; the lab time it takes is whatever the test lets pass. */
export async function ask(
  clock: LabClock,
  url: string,
  { method, body, raw, headers, signal }: Ask = {},
): Promise<Answer> {
  const startMs = clock.monotonicMs();
  const payload = raw ?? (body === undefined ? null : JSON.stringify(body));
  const response = await fetch(url, {
    method: method ?? (payload === null ? "GET" : "POST"),
    redirect: "manual",
    body: payload,
    ...(headers === undefined ? {} : { headers: { ...headers } }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    text,
    tookMs: clock.monotonicMs() - startMs,
  };
}

/** The same as one awaited call: lets the clock run until the answer is there. */
export function answered(clock: LabClock, url: string, options: Ask & { limitMs?: number } = {}): Promise<Answer> {
  return clock.until(ask(clock, url, options), { limitMs: options.limitMs ?? 120_000, what: `an answer of ${url}` });
}

/** Keys and types of a body, down to the leaves; arrays by their first item. */
export function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])];
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shapeOf(item)]));
}
