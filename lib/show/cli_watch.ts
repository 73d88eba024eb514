/** `--watch`: an answer shown again whenever it has changed; with `--json` one document a line. */
import { applyFrame } from "../operations/frames.ts";
import type { Frame } from "../operations/frames.ts";
import { ignoreProgress } from "../operations/operation.ts";
import type { Refused } from "../operations/outcome.ts";
import { runEvents } from "../operations/runs.ts";
import { stream } from "../operations/stream.ts";
import type { CliCall } from "./cli_commands.ts";
import { CLEAR_SCREEN, type CliOutput, styleFor } from "./cli_output.ts";
import { render } from "./cli_render.ts";
import type { Invoker } from "./invoker.ts";

interface Watching {
  readonly invoker: Invoker;
  readonly output: CliOutput;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Until Ctrl-C, until whoever reads has gone, or until there is no more to come: null. Else why it can't go on. */
export async function watchCall(call: CliCall, at: Watching): Promise<Refused | null> {
  const stop = new AbortController();
  const end = () => stop.abort();
  const sources = [at.signal, at.output.gone];
  for (const source of sources) source?.addEventListener("abort", end, { once: true });
  try {
    const watching = { ...at, signal: stop.signal };
    switch (call.operation.name) {
      case "stats":
        return await watchStats(call, watching);
      case "run":
        return await at.invoker.follow(runEvents, call.input, {
          signal: stop.signal,
          // A run, as the feed's schema says.
          onItem: (item) => show(call, item as Readonly<Record<string, unknown>>, at.output),
        });
      default:
        return await watchAnswer(call, watching);
    }
  } finally {
    for (const source of sources) source?.removeEventListener("abort", end);
  }
}

async function watchStats(call: CliCall, { invoker, output, signal }: Watching): Promise<Refused | null> {
  let stats: Readonly<Record<string, unknown>> | null = null;
  return await invoker.follow(stream, {}, {
    signal,
    onItem(item) {
      // Frames, as the feed's schema says.
      stats = applyFrame(stats, item as Frame);
      show(call, stats, output);
    },
  });
}

/** Asked again with each second of the service, one call at a time, and shown when the answer is another. */
async function watchAnswer(call: CliCall, { invoker, output, signal }: Watching): Promise<Refused | null> {
  const over = new AbortController();
  const end = () => over.abort();
  signal.addEventListener("abort", end, { once: true });
  let shown = "";
  let refusal: Refused | null = null;
  let isAsking = false;
  const ask = async () => {
    if (isAsking || over.signal.aborted) return;
    isAsking = true;
    const outcome = await invoker.invoke(call.operation, call.input, { signal: over.signal, progress: ignoreProgress });
    isAsking = false;
    if (over.signal.aborted) return;
    if (!outcome.ok) {
      refusal = outcome;
      return end();
    }
    const text = JSON.stringify(outcome.value);
    if (text !== shown) show(call, outcome.value, output);
    shown = text;
  };
  try {
    const lost = await invoker.follow(stream, {}, { signal: over.signal, onItem: () => void ask() });
    return refusal ?? lost;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function show(call: CliCall, value: Readonly<Record<string, unknown>>, output: CliOutput): void {
  if (call.isJson) return output.stdout(`${JSON.stringify(value)}\n`);
  const text = render(call.operation.name, value, styleFor(output));
  output.stdout(output.isTerminal ? CLEAR_SCREEN + text : text);
}
