/** Where the CLI writes, and how: colour only for people, tables with aligned columns. */

export interface CliOutput {
  stdout(text: string): void;
  stderr(text: string): void;
  /** True where a person reads: colour and progress. */
  readonly isTerminal: boolean;
}

/** This process's own streams. `NO_COLOR` is honoured by the runtime's own flag for it. */
export function processOutput(): CliOutput {
  const encoder = new TextEncoder();
  return {
    stdout: (text) => writeAll(Deno.stdout, encoder.encode(text)),
    stderr: (text) => writeAll(Deno.stderr, encoder.encode(text)),
    isTerminal: Deno.stdout.isTerminal() && !Deno.noColor,
  };
}

/** A pipe takes part of a long text at a time; one whose reader has gone takes nothing, which is no error here. */
function writeAll(stream: { writeSync(bytes: Uint8Array): number }, bytes: Uint8Array): void {
  try {
    for (let at = 0; at < bytes.byteLength;) at += stream.writeSync(bytes.subarray(at));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  good(text: string): string;
  warn(text: string): string;
  bad(text: string): string;
}

const ESCAPE = String.fromCharCode(27);

function paint(code: number): (text: string) => string {
  return (text) => `${ESCAPE}[${code}m${text}${ESCAPE}[0m`;
}

const PLAIN: Style = { bold: String, dim: String, good: String, warn: String, bad: String };

/** Colours for a terminal, nothing elsewhere. */
export function styleFor(isTerminal: boolean): Style {
  return isTerminal ? { bold: paint(1), dim: paint(2), good: paint(32), warn: paint(33), bad: paint(31) } : PLAIN;
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
function widthOf(text: string): number {
  return [...text.replaceAll(new RegExp(`${ESCAPE}\\[\\d+m`, "g"), "")].length;
}

/** Rows under headings, columns aligned: numbers to the right. Without rows, `empty` in their place. */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  options: { readonly style: Style; readonly empty: string },
): string {
  if (rows.length === 0) return `${options.style.dim(options.empty)}\n`;
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
