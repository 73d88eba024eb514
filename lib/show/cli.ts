/**
 * The command line: every operation as a subcommand, and the commands that have owners of their own. Exit codes are
 * those of the FAILURES table, answers go to stdout, everything else to stderr.
 */
import { buildApplication, formatMessageForArgumentScannerError, run, text_en } from "@stricli/core";
import type { ApplicationText } from "@stricli/core";
import { FAILURES, messageOf } from "../model/failure.ts";
import type { Progress } from "../model/services.ts";
import { applyFrame } from "../operations/frames.ts";
import type { Frame } from "../operations/frames.ts";
import type { Operation } from "../operations/operation.ts";
import { asFailure, errorBody, refused, refusedBy } from "../operations/outcome.ts";
import type { Outcome, Refused, Report } from "../operations/outcome.ts";
import { operations } from "../operations/registry.ts";
import { runEvents } from "../operations/runs.ts";
import { stream } from "../operations/stream.ts";
import { askAbout } from "./about.ts";
import { commandTree } from "./cli_commands.ts";
import type { CliAddress, CliCall, ExtraCommand } from "./cli_commands.ts";
import { CLEAR_LINE, CLEAR_SCREEN, styleFor } from "./cli_output.ts";
import type { CliOutput } from "./cli_output.ts";
import { render } from "./cli_render.ts";
import type { Invoker } from "./invoker.ts";

/** What the command line needs from the program around it. */
export interface CliParts {
  readonly version: string;
  readonly output: CliOutput;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly report: Report;
  /** Finds the service that the flags (and the configuration) name, or opens what may be read without one. */
  invoker(address: CliAddress): Promise<Invoker>;
  /** Commands with owners of their own; each gets what follows its words and returns its exit code. */
  readonly commands: Readonly<Record<"serve" | "demo" | "config", (args: readonly string[]) => Promise<number>>>;
  /** Flags of `serve` and `demo` for their help, kebab-case, with what they mean. */
  readonly serviceFlags: Readonly<Record<string, string>>;
}

/** Feeds behind `--watch`. */
const WATCHES = { stats: stream, run: runEvents } as const;

/** Runs one command line and returns its exit code. */
export async function runCli(argv: readonly string[], parts: CliParts): Promise<number> {
  const args = expand(argv);
  const wantsHelp = args.some((arg) => arg === "--help" || arg === "-h");
  const [word = "", ...rest] = args;
  try {
    if (!wantsHelp && (word === "serve" || word === "demo" || word === "config")) {
      return await parts.commands[word](rest);
    }
    if (!wantsHelp && word === "mcp") return await serveMcp(rest, parts);
    return await runCommand(args, parts);
  } catch (error) {
    const failure = asFailure(error, { operation: word, signal: parts.signal, report: parts.report });
    return tellRefusal(refusedBy(failure), { output: parts.output, isJson: args.includes("--json") });
  }
}

/** `hyperswap` alone is `status`, with or without flags; `--stdio` is how MCP hosts know `mcp`. */
function expand(argv: readonly string[]): readonly string[] {
  const [first] = argv;
  if (first === "--stdio") return ["mcp", ...argv.slice(1)];
  const isOwnFlag = first !== undefined && ["--help", "-h", "--version", "-v", "--helpAll"].includes(first);
  return first === undefined || (first.startsWith("-") && !isOwnFlag) ? ["status", ...argv] : argv;
}

async function runCommand(args: readonly string[], parts: CliParts): Promise<number> {
  const { output } = parts;
  const isJson = args.includes("--json");
  let exit = 0;
  let thrown: unknown = null;
  const root = commandTree({
    operations,
    extras: extrasOf(parts),
    watchable: new Set(Object.keys(WATCHES)),
    async call(call) {
      try {
        exit = await carryOut(call, parts);
      } catch (error) {
        // The parser would print it in its own way.
        thrown = error;
      }
    },
  });
  let problem = "";
  const app = buildApplication(root, {
    name: "hyperswap",
    versionInfo: { currentVersion: parts.version },
    scanner: { caseStyle: "allow-kebab-for-camel", allowArgumentEscapeSequence: true },
    documentation: { caseStyle: "convert-camel-to-kebab", disableAnsiColor: !output.isTerminal },
    localization: { text: parserText((message) => problem = message) },
  });
  let complaints = "";
  const process = {
    stdout: { write: (text: string) => output.stdout(text) },
    stderr: { write: (text: string) => void (complaints += text) },
    // Unset from the start, or the parser would leave it as it is; the annotation keeps it from being `null` for ever.
    exitCode: null as number | string | null,
  };
  await run(app, args, { process });
  if (thrown !== null) throw thrown;
  if (process.exitCode === 0) return exit;
  const refusal = refused("invalid_input", problem || complaints.trim(), {
    hint: "hyperswap --help lists the commands; --help after a command, its flags",
  });
  return tellRefusal(refusal, { output, isJson });
}

/** The parser's complaints in the words that refusals have everywhere. */
function parserText(keep: (message: string) => void): ApplicationText {
  const said = (message: string) => {
    keep(message);
    return message;
  };
  // The parser quotes commands with backticks.
  const meant = (corrections: readonly string[]) => {
    const names = corrections.map((name) => `"${name.replaceAll("`", "")}"`);
    return names.length === 0 ? "" : `; did you mean ${names.join(" or ")}?`;
  };
  return {
    ...text_en,
    noCommandRegisteredForInput: ({ input, corrections }) => said(`Unknown command "${input}"${meant(corrections)}`),
    exceptionWhileParsingArguments: (error) =>
      said(
        error instanceof Error && "input" in error
          // Narrowed as far as the parser's types let: its errors share no exported base to test for.
          ? formatMessageForArgumentScannerError(error as never, {
            FlagNotFoundError: ({ input, corrections }) =>
              `Unknown flag --${input.replace(/^-+/, "")}${meant(corrections.map((flag) => `--${flag}`))}`,
            UnexpectedPositionalError: ({ input }) => `Unexpected argument "${input}"`,
          })
          : messageOf(error),
      ),
  };
}

function extrasOf({ serviceFlags }: CliParts): readonly ExtraCommand[] {
  return [
    { words: ["serve"], brief: "Run the service on this machine", flags: serviceFlags },
    { words: ["demo"], brief: "Run the service on a simulated box, with traffic", flags: serviceFlags },
    { words: ["mcp"], brief: "Speak MCP on standard input and output (also --stdio)", flags: {} },
    { words: ["config", "check"], brief: "Check the configuration and say what is wrong", flags: {} },
    { words: ["config", "show"], brief: "Print the configuration in force, secrets hidden", flags: {} },
    { words: ["config", "schema"], brief: "Print the configuration's JSON Schema", flags: {} },
  ];
}

async function carryOut(call: CliCall, parts: CliParts): Promise<number> {
  const invoker = await parts.invoker(call.address);
  try {
    return call.isWatch ? await watch(call, { invoker, parts }) : await callOnce(call, { invoker, parts });
  } finally {
    invoker.close();
  }
}

async function callOnce(call: CliCall, at: { readonly invoker: Invoker; readonly parts: CliParts }): Promise<number> {
  const { output, signal } = at.parts;
  const showProgress = !call.isJson && output.isTerminal;
  const progress = ({ phase, done }: Progress) => {
    if (showProgress) output.stderr(`${CLEAR_LINE}${phase}${done === null ? "" : ` ${Math.round(done * 100)} %`}`);
  };
  const outcome = await at.invoker.invoke(call.operation, call.input, { signal, progress });
  if (showProgress && call.operation.isLong) output.stderr(CLEAR_LINE);
  return tell(outcome, call, { output, simulation: outcome.ok ? await simulationOf(at.invoker, signal) : null });
}

/** What a simulated box is called: every door says it, this one on stderr, since stdout is the answer's. */
async function simulationOf(invoker: Invoker, signal: AbortSignal): Promise<string | null> {
  return (await askAbout(invoker, signal)).simulation;
}

function tell(
  outcome: Outcome,
  call: CliCall,
  to: { readonly output: CliOutput; readonly simulation: string | null },
): number {
  const { output, simulation } = to;
  if (!outcome.ok) return tellRefusal(outcome, { output, isJson: call.isJson });
  const style = styleFor(output.isTerminal);
  if (simulation !== null) output.stderr(`${style.warn(`SIMULATED: nothing here is real hardware (${simulation})`)}\n`);
  output.stdout(call.isJson ? `${JSON.stringify(outcome.value)}\n` : render(call.operation.name, outcome.value, style));
  return exitOf(call.operation, outcome);
}

function exitOf(operation: Operation, outcome: Outcome & { readonly ok: true }): number {
  // A run that was only started says nothing yet of how it ends.
  return operation.cli === false || outcome.accepted ? 0 : operation.cli.exit?.(outcome.value) ?? 0;
}

/** `error:` and `hint:` on stderr; with `--json` the same as a document on stdout too. */
function tellRefusal(refusal: Refused, to: { readonly output: CliOutput; readonly isJson: boolean }): number {
  const { output, isJson } = to;
  const style = styleFor(output.isTerminal);
  output.stderr(`${style.bad("error:")} ${refusal.message}\n`);
  if (refusal.hint !== null) output.stderr(`${style.dim("hint:")} ${refusal.hint}\n`);
  if (isJson) output.stdout(`${JSON.stringify(errorBody(refusal))}\n`);
  return FAILURES[refusal.code].exit;
}

/** Shows the answer again at every change; with `--json` one document a line. */
async function watch(call: CliCall, at: { readonly invoker: Invoker; readonly parts: CliParts }): Promise<number> {
  const { output, signal } = at.parts;
  const feed = call.operation.name === "run" ? WATCHES.run : WATCHES.stats;
  const style = styleFor(output.isTerminal);
  let stats: object | null = null;
  const refusal = await at.invoker.follow(feed, call.input, {
    signal,
    onItem(item) {
      // Items of these two feeds: a frame, or a run as an object.
      if (feed.isShared) stats = applyFrame(stats, item as Frame);
      const value = (feed.isShared ? stats : item) as Readonly<Record<string, unknown>>;
      const text = call.isJson ? `${JSON.stringify(value)}\n` : render(call.operation.name, value, style);
      output.stdout(output.isTerminal && !call.isJson ? CLEAR_SCREEN + text : text);
    },
  });
  return refusal === null ? 0 : tellRefusal(refusal, { output, isJson: call.isJson });
}

async function serveMcp(args: readonly string[], parts: CliParts): Promise<number> {
  const { readAddress } = await import("./cli_address.ts");
  const address = readAddress(args);
  const { serveMcpStdio } = await import("./mcp_stdio.ts");
  const invoker = await parts.invoker(address);
  try {
    await serveMcpStdio({
      invoker,
      signal: parts.signal,
      onError: (error) => parts.output.stderr(`error: ${error.message}\n`),
    });
    return 0;
  } finally {
    invoker.close();
  }
}
