/**
 * Random hand-offs in the lab over real sockets: a model is loaded, a prompt comes, the arbiter has Ollama yield, and the
 * lab's own log says when its driver really had the memory back. A third program allocates and frees meanwhile.
 */
import type { Box } from "../../lib/lab/box.ts";
import { Random } from "../../lib/lab/random.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { Clock, Store } from "../../lib/model/ports.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";

const MODELS = ["qwen3:14b", "gemma3:12b", "llama3.1:8b"] as const;
const LOAD_ATTEMPTS = 10;

export interface HandOff {
  readonly models: readonly string[];
  readonly outcome: string;
  /** When the arbiter said so. */
  readonly saidAtMs: number;
  /** When the lab's driver had freed the last byte of the last target; null if it hasn't. */
  readonly freedAtMs: number | null;
}

/** An event of the history, and when on the box's clock it was said. */
export interface Said {
  readonly item: HistoryItem;
  readonly atMs: number;
}

/** A store in memory that tells of each event as it is said. */
export function watchedStore(clock: Clock, tell: (said: Said) => void): Store {
  const inner = memoryStore();
  return {
    ...inner,
    async append(item) {
      const atMs = clock.monotonicMs();
      const kept = await inner.append(item);
      tell({ item: kept, atMs });
      return kept;
    },
  };
}

export interface HandOffRun {
  readonly box: Box;
  readonly rounds: number;
  readonly seed: number;
  /** What was said so far; it grows meanwhile. */
  readonly said: readonly Said[];
  /** Waits on the box's clock. */
  readonly pass: (ms: number) => Promise<void>;
  readonly settle: <T>(promise: Promise<T>) => Promise<T>;
}

/** Plays the rounds and reports each yield that ComfyUI's work caused. */
export async function playHandOffs(run: HandOffRun): Promise<readonly HandOff[]> {
  const random = new Random(run.seed);
  const handOffs: HandOff[] = [];
  run.box.thirdParty.start();
  for (let round = 0; round < run.rounds; round++) {
    const isPair = random.between(0, 1) < 0.25;
    const names = isPair ? ["llama3.1:8b", "nomic-embed-text"] : [random.pick(MODELS)];
    for (const model of names) await load(run, model);
    await run.pass(random.between(200, 900));
    handOffs.push(await handOff(run, random));
  }
  run.box.thirdParty.stop();
  return handOffs;
}

async function load(run: HandOffRun, model: string): Promise<void> {
  const { url } = run.box.ollama;
  const isEmbedding = model.includes("embed");
  const body = isEmbedding ? { model, input: "" } : { model, stream: false };
  for (let attempt = 1;; attempt++) {
    const refusal = await run.settle(post(`${url}/api/${isEmbedding ? "embed" : "generate"}`, body));
    if (refusal === null) return;
    // The third program may just have taken the room: a client tries again.
    if (attempt === LOAD_ATTEMPTS || !refusal.includes("out of memory")) throw new Error(refusal);
    await run.pass(500);
  }
}

async function handOff(run: HandOffRun, random: Random): Promise<HandOff> {
  const { box, said } = run;
  const before = said.length;
  const inputs = {
    steps: random.whole(2, 6),
    step_ms: 100,
    vram_gb: random.between(0.5, 4),
    seed: random.whole(1, 1e9),
  };
  const prompt = { "1": { class_type: "LabWork", inputs } };
  const refusal = await run.settle(post(`${box.comfy.url}/prompt`, { prompt }));
  if (refusal !== null) throw new Error(refusal);
  const isHandOff = ({ item }: Said) => item.kind === "yield" && item.fields["cause"] === "comfy_enqueued";
  let found = said.slice(before).find(isHandOff);
  for (let waited = 0; found === undefined && waited < 15_000; waited += 50) {
    await run.pass(50);
    found = said.slice(before).find(isHandOff);
  }
  while (box.comfy.queueRemaining > 0) await run.pass(100);
  if (found === undefined) return { models: [], outcome: "never said", saidAtMs: NaN, freedAtMs: null };
  const pids = asNumbers(found.item.fields["pids"]);
  return {
    models: asTexts(found.item.fields["models"]),
    outcome: String(found.item.fields["outcome"]),
    saidAtMs: found.atMs,
    freedAtMs: freedAt(box, pids),
  };
}

/** When the last of these processes came to hold nothing; null while one still holds. */
function freedAt(box: Box, pids: readonly number[]): number | null {
  let latest = -Infinity;
  for (const pid of pids) {
    const last = box.vram.log.findLast((truth) => truth.pid === pid);
    if (last === undefined || last.heldBytes > 0) return null;
    latest = Math.max(latest, last.atMs);
  }
  return pids.length === 0 ? null : latest;
}

/** Null when it was taken, else how it was refused. */
async function post(url: string, body: unknown): Promise<string | null> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  return response.ok ? null : `${url} answered ${response.status}: ${text}`;
}

function asNumbers(value: unknown): readonly number[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "number") : [];
}

function asTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : [];
}
