/** One step of a run of tests: started, timed, told in one line, its output shown only when something failed. */
import { lastLine, NOTHING, type Tally, tally } from "./junit.ts";
import { ROOT } from "./tools.ts";

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface Step {
  readonly name: string;
  /** Why it can't run here, or null. */
  readonly skip?: string | null;
  /** `tests`: counted by its JUnit report, and finding none is a failure. `check`: counts as one. */
  readonly kind: "tests" | "check";
  readonly command: Command;
  /** Past it the step is ended and has failed. */
  readonly limitMs: number;
}

export interface StepResult {
  readonly tally: Tally;
  readonly seconds: number;
  readonly output: string;
}

/** Runs a step and prints its line; what it printed itself follows only if it failed. */
export async function runStep(step: Step, print: (line: string) => void): Promise<Tally> {
  const title = step.name.padEnd(28);
  if (typeof step.skip === "string") {
    print(`skip  ${title} ${step.skip}`);
    return { ...NOTHING, skipped: [step.name] };
  }
  const { tally, seconds, output } = await perform(step);
  print(`${tally.failed === 0 ? "ok  " : "FAIL"}  ${title} ${seconds.toFixed(1).padStart(6)} s   ${lastLine(tally)}`);
  for (const name of tally.skipped) print(`        skipped: ${name}`);
  if (tally.failed > 0) print(withoutPassing(output));
  return tally;
}

async function perform(step: Step): Promise<StepResult> {
  const startedAtMs = performance.now();
  const report = step.kind === "tests" ? await Deno.makeTempFile({ suffix: ".xml" }) : null;
  try {
    const args = report === null ? step.command.args : withReport(step.command.args, report);
    const { code, output } = await run({ ...step.command, args }, step.limitMs);
    const seconds = (performance.now() - startedAtMs) / 1000;
    const counted = report === null ? NOTHING : tally(await Deno.readTextFile(report));
    return { tally: judge(step, code, counted), seconds, output };
  } finally {
    if (report !== null) await Deno.remove(report);
  }
}

/** What the step came to, its exit status included: a run that broke before its tests counts as one failure. */
export function judge(step: Pick<Step, "kind">, code: number, counted: Tally): Tally {
  if (step.kind === "check") return code === 0 ? { ...NOTHING, passed: 1 } : { ...NOTHING, failed: 1 };
  const isEmpty = counted.passed + counted.failed + counted.skipped.length === 0;
  const isUntold = code !== 0 && counted.failed === 0;
  return isEmpty || isUntold ? { ...counted, failed: counted.failed + 1 } : counted;
}

function withReport(args: readonly string[], report: string): string[] {
  const [command = "test", ...rest] = args;
  return [command, `--junit-path=${report}`, ...rest];
}

async function run(command: Command, limitMs: number): Promise<{ readonly code: number; readonly output: string }> {
  const child = new Deno.Command(command.program, {
    args: [...command.args],
    cwd: ROOT,
    env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", ...command.env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const chunks: string[] = [];
  const read = Promise.all([collect(child.stdout, chunks), collect(child.stderr, chunks)]);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, limitMs);
  const { code } = await child.status;
  clearTimeout(timer);
  // What an ended step leaves running keeps its pipes open, and would keep this waiting for ever.
  if (!isLate) await read;
  else chunks.push(`\nEnded after ${limitMs / 1000} s: the step takes no longer than that\n`);
  return { code: isLate ? 1 : code, output: chunks.join("") };
}

async function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>, chunks: string[]): Promise<void> {
  for await (const text of stream.pipeThrough(new TextDecoderStream())) chunks.push(text);
}

/** The output without the lines of what passed. */
function withoutPassing(output: string): string {
  return output.split("\n").filter((line) => !/ \.\.\. (?:ok|ignored)\b.*\(/.test(line)).join("\n");
}
