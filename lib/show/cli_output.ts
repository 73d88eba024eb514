/** Where the CLI writes, and how: colour only for people, tables with aligned columns. */
import { FAILURES, messageOf } from "../model/failure.ts";

export interface CliOutput {
  stdout(text: string): void;
  stderr(text: string): void;
  /** True where a person reads: colour and progress. */
  readonly isTerminal: boolean;
  /** True: no colour, terminal or not (`NO_COLOR`). */
  readonly isPlain?: boolean;
  /** Aborts when nobody takes stdout any more (`hyperswap top | head`, a full disk): views that repeat end then. */
  readonly gone?: AbortSignal;
}

export interface ProcessOutput extends CliOutput {
  /** The exit code after that of the command: whatever came of it, an answer that couldn't be written is a failure. */
  exitAfter(code: number): number;
}

interface Stream {
  writeSync(bytes: Uint8Array): number;
}

/** This process's own streams. `NO_COLOR` is honoured by the runtime's own flag for it. */
export function processOutput(
  { stdout, stderr }: { readonly stdout: Stream & { isTerminal(): boolean }; readonly stderr: Stream } = {
    stdout: Deno.stdout,
    stderr: Deno.stderr,
  },
): ProcessOutput {
  const gone = new AbortController();
  let isLost = false;
  const tell = (text: string) => void writeAll(stderr, text);
  return {
    stdout: (text) => {
      if (gone.signal.aborted) return;
      const failure = writeAll(stdout, text);
      if (failure === null) return;
      gone.abort();
      // A reader that has enough (`| head`) is no failure.
      if (failure instanceof Deno.errors.BrokenPipe) return;
      isLost = true;
      tell(`error: Cannot write to standard output: ${messageOf(failure)}\n`);
    },
    stderr: tell,
    isTerminal: stdout.isTerminal(),
    isPlain: Deno.noColor,
    gone: gone.signal,
    exitAfter: (code) => isLost ? FAILURES.unavailable.exit : code,
  };
}

/** A pipe takes part of a long text at a time. Null, or why it takes no more. */
function writeAll(stream: Stream, text: string): unknown {
  const bytes = new TextEncoder().encode(text);
  try {
    for (let at = 0; at < bytes.byteLength;) at += stream.writeSync(bytes.subarray(at));
    return null;
  } catch (error) {
    return error;
  }
}

export type Hue = "blue" | "magenta" | "cyan" | "yellow" | "green";

export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  good(text: string): string;
  warn(text: string): string;
  bad(text: string): string;
  hue(hue: Hue, text: string): string;
  /** False: whatever is told by colour has to be told by letters. */
  readonly hasColour: boolean;
}

const ESCAPE = String.fromCharCode(27);

function paint(code: number): (text: string) => string {
  return (text) => `${ESCAPE}[${code}m${text}${ESCAPE}[0m`;
}

const HUES: Readonly<Record<Hue, number>> = { blue: 34, magenta: 35, cyan: 36, yellow: 33, green: 32 };

const PLAIN: Style = {
  ...{ bold: String, dim: String, good: String, warn: String, bad: String },
  hue: (_hue, text) => text,
  hasColour: false,
};

const COLOURED: Style = {
  ...{ bold: paint(1), dim: paint(2), good: paint(32), warn: paint(33), bad: paint(31) },
  hue: (hue, text) => paint(HUES[hue])(text),
  hasColour: true,
};

/** Colours for a terminal, nothing elsewhere. */
export function styleFor({ isTerminal, isPlain = false }: Pick<CliOutput, "isTerminal" | "isPlain">): Style {
  return isTerminal && !isPlain ? COLOURED : PLAIN;
}

/** What a simulated box is called: every door says it, the command line on stderr, since stdout is the answer's. */
export function simulationNote(simulation: string, style: Style): string {
  return `${style.warn(`SIMULATED: nothing here is real hardware (${simulation})`)}\n`;
}

/** Clears a terminal's screen, for views that repeat. */
export const CLEAR_SCREEN = `${ESCAPE}[2J${ESCAPE}[H`;

/** Back to the start of a terminal's line, which is cleared. */
export const CLEAR_LINE = `\r${ESCAPE}[K`;

/** Length as a person sees it. */
export function widthOf(text: string): number {
  return [...text.replaceAll(new RegExp(`${ESCAPE}\\[\\d+m`, "g"), "")].length;
}

/** A line cut to so many columns; colours that were begun end with it. */
export function clip(line: string, columns: number): string {
  if (widthOf(line) <= columns) return line;
  let left = Math.max(0, columns - 1);
  let cut = "";
  for (const part of line.split(new RegExp(`(${ESCAPE}\\[\\d+m)`))) {
    if (part.startsWith(ESCAPE)) {
      cut += part;
      continue;
    }
    const letters = [...part].slice(0, left);
    left -= letters.length;
    cut += letters.join("");
    if (left === 0) break;
  }
  return `${cut}…${line.includes(ESCAPE) ? `${ESCAPE}[0m` : ""}`;
}

/** A bar of `cells`, its parts in proportion to `total`; each with its hue, or its letter where there is no colour. */
export function stackedBar(
  parts: readonly { readonly value: number; readonly hue: Hue; readonly letter: string }[],
  { total, cells, style }: { readonly total: number; readonly cells: number; readonly style: Style },
): string {
  let drawn = 0;
  let sum = 0;
  let bar = "";
  for (const { value, hue, letter } of parts) {
    sum += Math.max(0, value);
    // Ends are rounded, not lengths: the parts together are never longer than their sum.
    const end = total > 0 ? Math.min(cells, Math.round((sum / total) * cells)) : 0;
    const length = Math.max(0, end - drawn);
    drawn += length;
    bar += style.hasColour ? style.hue(hue, "█".repeat(length)) : letter.repeat(length);
  }
  return bar + style.dim((style.hasColour ? "░" : ".").repeat(cells - drawn));
}

/** A model's name may take so many columns of a row; a file's name can have 255 letters. */
export const NAME_COLUMNS = 60;

/** Rows under headings, columns aligned: numbers to the right. Without rows, `empty` in their place. */
export function table(
  headings: readonly string[],
  cells: readonly (readonly string[])[],
  options: { readonly style: Style; readonly empty: string },
): string {
  if (cells.length === 0) return `${options.style.dim(options.empty)}\n`;
  // Either would break the row: a file's name may have them.
  const rows = cells.map((row) => row.map((cell) => cell.replaceAll("\n", "␊").replaceAll("\t", "␉")));
  const widths = headings.map((heading, column) =>
    Math.max(...[heading, ...rows.map((row) => row[column] ?? "")].map(widthOf))
  );
  const isNumeric = headings.map((_, column) =>
    rows.every((row) => /^(–|[-+]?[\d.]+( .*)?)$/.test(row[column] ?? "–"))
  );
  const line = (cells: readonly string[]) =>
    cells.map((cell, column) => {
      const gap = " ".repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell)));
      return isNumeric[column] ? gap + cell : cell + gap;
    }).join("  ").trimEnd();
  return [options.style.dim(line(headings)), ...rows.map(line)].map((text) => `${text}\n`).join("");
}

/** Labelled lines: `VRAM     13.2 GiB`. */
export function labelled(pairs: readonly (readonly [string, string])[], style: Style): string {
  const width = Math.max(...pairs.map(([label]) => label.length));
  return pairs.map(([label, text]) => `${style.dim(label.padEnd(width))}  ${text}\n`).join("");
}

/** A number with its unit, or a dash. */
export function quantity(value: unknown, unit = "", digits?: number): string {
  if (typeof value !== "number") return "–";
  const text = digits === undefined ? String(value) : value.toFixed(digits);
  return unit === "" ? text : `${text} ${unit}`;
}
