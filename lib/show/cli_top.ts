/** `hyperswap top`: the live stream as a screen that redraws itself; plain text, second by second, into a pipe. */
import { FAILURES } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import { applyFrame } from "../operations/frames.ts";
import type { Frame } from "../operations/frames.ts";
import type { Operations } from "../operations/registry.ts";
import { stream } from "../operations/stream.ts";
import { readAddress } from "./cli_address.ts";
import type { CliAddress } from "./cli_commands.ts";
import { type CliOutput, styleFor } from "./cli_output.ts";
import { hasTerminal, openScreen, type ScreenDevice, terminalDevice } from "./cli_screen.ts";
import { topLines } from "./cli_top_view.ts";
import { failureOf, type Invoker } from "./invoker.ts";

type Stats = Operations["stats"]["output"];

export interface TopParts {
  readonly output: CliOutput;
  readonly clock: Pick<Clock, "sleep">;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  invoker(address: CliAddress): Promise<Invoker>;
  /** The terminal to take; null where there is none. Default: this process's, if it is one. */
  readonly device?: ScreenDevice | null;
}

/** Between two tries to reach a service that has gone. */
const RETRY_MS = 1_000;
/** What a pipe is given: no screen has a size there. */
const PIPED = { columns: 120, rows: 40 };

/** Shows it until it is quit; resolves with the exit code. */
export async function cliTop(args: readonly string[], parts: TopParts): Promise<number> {
  const isJson = args.includes("--json");
  const address = readAddress(args.filter((arg) => arg !== "--json"));
  const device = parts.device === undefined ? (hasTerminal() ? terminalDevice() : null) : parts.device;
  // Before the screen is taken: who can't be reached at all is said on an ordinary one.
  const invoker = await parts.invoker(address);
  if (device === null || isJson) return await showPlain(invoker, isJson, parts);
  return await showScreen(invoker, { parts, address, device });
}

async function showScreen(
  first: Invoker,
  at: { readonly parts: TopParts; readonly address: CliAddress; readonly device: ScreenDevice },
): Promise<number> {
  const { parts, address, device } = at;
  const style = styleFor(parts.output);
  let stats: Stats | null = null;
  let notice: string | null = null;
  const draw = () => {
    if (stats !== null) screen.draw(topLines(stats, { style, ...screen.size, notice }));
    else screen.draw([notice ?? `Waiting for the first second of ${first.where}`]);
  };
  using screen = openScreen(device, () => draw());
  draw();
  let invoker: Invoker | null = first;
  while (!screen.quit.aborted && !parts.signal.aborted) {
    try {
      invoker ??= await parts.invoker(address);
      await followStats(invoker, screen.quit, (next) => {
        stats = next;
        notice = null;
        draw();
      });
    } catch (error) {
      notice = `No service: ${error instanceof Error ? error.message : String(error)}`;
    }
    invoker?.close();
    invoker = null;
    if (screen.quit.aborted) break;
    notice ??= "The service has gone; looking for it";
    draw();
    // Quitting ends the wait, which is no failure.
    await parts.clock.sleep(RETRY_MS, screen.quit).catch(() => {});
  }
  return 0;
}

async function showPlain(invoker: Invoker, isJson: boolean, parts: TopParts): Promise<number> {
  const { output } = parts;
  const style = styleFor(output);
  const stop = new AbortController();
  const end = () => stop.abort();
  for (const signal of [parts.signal, output.gone]) signal?.addEventListener("abort", end, { once: true });
  try {
    await followStats(invoker, stop.signal, (stats) =>
      output.stdout(
        isJson
          ? `${JSON.stringify(stats)}\n`
          : `${topLines(stats, { style, ...PIPED, notice: "" }).slice(0, -1).join("\n")}\n\n`,
      ));
    return stop.signal.aborted ? 0 : FAILURES.unavailable.exit;
  } finally {
    for (const signal of [parts.signal, output.gone]) signal?.removeEventListener("abort", end);
    invoker.close();
  }
}

/** Every second of the box until the signal aborts or the service ends; throws when it can't be followed. */
async function followStats(invoker: Invoker, signal: AbortSignal, show: (stats: Stats) => void): Promise<void> {
  let stats: Stats | null = null;
  const refusal = await invoker.follow(stream, {}, {
    signal,
    onItem(item) {
      // Items of this feed are frames; the server's schema has checked them.
      stats = applyFrame(stats, item as Frame);
      show(stats);
    },
  });
  if (refusal !== null) throw failureOf(refusal);
}
