import type { Ground } from "./ground.ts";
import type { Loaded } from "./ollama_scheduler.ts";

/** How much slower a token is for each part of the model that runs on the processor. */
const SPILL_SLOWDOWN = 9;
/** Tokens a second while the prompt is read, against those while it answers. */
const PROMPT_SPEEDUP = 18;
const CPU_EVERY_MS = 250;
const WORDS =
  "the card holds what was loaded last and gives it back when it is asked so the next model finds room and starts warm"
    .split(
      " ",
    );

/** The runner is gone in the middle of an answer. */
export class RunnerDied extends Error {}

export interface GenerationAsk {
  readonly loaded: Loaded;
  readonly prompt: string;
  /** Null: the model stops by itself after a while. */
  readonly maxTokens: number | null;
  readonly signal: AbortSignal;
}

export interface GenerationEnd {
  readonly text: string;
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly tokens: number;
  readonly evalMs: number;
  readonly reason: "stop" | "length";
}

/**
 * Answers token by token at the model's pace, keeping the card busy. Waits for a slot first; that wait stands in no
 * duration, as in the real server. Throws RunnerDied when the runner ends, the signal's reason when the client leaves.
 */
export async function generate(
  ground: Ground,
  ask: GenerationAsk,
  onToken: (token: string) => Promise<void>,
): Promise<GenerationEnd> {
  const { loaded, signal } = ask;
  const { runner, model } = loaded;
  const giveBack = await loaded.turns.take(signal);
  const slowdown = 1 + (1 - runner.offload) * SPILL_SLOWDOWN;
  const stray = ground.pace.stray();
  const paceMs = () => 1_000 / model.tokensPerSecond * slowdown / (ground.pace.decode() * stray);
  const tokenMs = paceMs();
  const promptTokens = Math.max(1, Math.round(ask.prompt.length / 4));
  const limit = ask.maxTokens ?? ground.random.whole(40, 120);
  const cpu = processorLoad(ground, loaded);
  try {
    ground.vram.work(runner.pid, Math.round(97 * Math.max(0.15, runner.offload)));
    runner.work = { promptTokens, decoded: 0, remaining: limit };
    const promptMs = Math.max(4, promptTokens * tokenMs / PROMPT_SPEEDUP);
    await pause(ground, { ms: promptMs, loaded, signal });
    const startMs = ground.clock.monotonicMs();
    let text = "";
    let tokens = 0;
    for (; tokens < limit; tokens += 1) {
      if (tokens > 0) await pause(ground, { ms: paceMs(), loaded, signal });
      if (tokens === BROKEN_TOKEN) breakDown(ground);
      const token = ground.pace.breakdown() === "degenerate" ? "@" : ` ${WORDS[tokens % WORDS.length]}`;
      text += token;
      runner.work = { promptTokens, decoded: tokens + 1, remaining: limit - tokens - 1 };
      await onToken(token);
    }
    const evalMs = ground.clock.monotonicMs() - startMs;
    return { text, promptTokens, promptMs, tokens, evalMs, reason: ask.maxTokens === null ? "stop" : "length" };
  } finally {
    cpu.stop();
    runner.work = null;
    ground.vram.work(runner.pid, 0);
    giveBack();
  }
}

/** A card that is driven too far gives way once it is well at work. */
const BROKEN_TOKEN = 20;

function breakDown({ pace, table }: Ground): void {
  const breakdown = pace.breakdown();
  if (breakdown === "xid") table.xid(13);
  if (breakdown === "crash") throw new RunnerDied("CUDA error: an illegal memory access was encountered");
}

/** Sleeps as long as the runner lives; one that was stopped (SIGSTOP) never gets on. */
async function pause(
  ground: Ground,
  { ms, loaded, signal }: { readonly ms: number; readonly loaded: Loaded; readonly signal: AbortSignal },
): Promise<void> {
  await ground.clock.sleep(ms, signal);
  const { runner } = loaded;
  if (runner.isStopped) {
    // A process that doesn't run gives the card nothing to do, either.
    const smPct = ground.vram.smPctOf(runner.pid);
    ground.vram.work(runner.pid, 0);
    while (runner.isStopped) await ground.clock.sleep(CPU_EVERY_MS, signal);
    ground.vram.work(runner.pid, smPct);
  }
  if (runner.state === "gone") throw new RunnerDied("The runner ended in the middle of an answer");
}

/** A model on the card keeps a quarter of a core busy; one that spilled computes on several. */
function processorLoad(ground: Ground, { runner }: Loaded) {
  const cores = runner.offload < 1 ? 1 + (1 - runner.offload) * 6 : 0.25;
  return ground.clock.every(CPU_EVERY_MS, () => {
    if (!runner.isStopped) ground.processes.work(runner.pid, cores * CPU_EVERY_MS / 1_000);
  });
}
