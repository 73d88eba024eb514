/**
 * The command line: every operation as a subcommand, and the commands that have owners of their own. Exit codes are
 * those of the FAILURES table, answers go to stdout, everything else to stderr.
 */
import { buildApplication, formatMessageForArgumentScannerError, run, text_en } from "@stricli/core";
import type { ApplicationText } from "@stricli/core";
import { FAILURES, messageOf } from "../model/failure.ts";
import type { Progress } from "../model/services.ts";
import type { Operation } from "../operations/operation.ts";
import { asFailure, errorBody, refused, refusedBy } from "../operations/outcome.ts";
import type { Outcome, Refused, Report } from "../operations/outcome.ts";
import { operations } from "../operations/registry.ts";
import { askAbout } from "./about.ts";
import { commandTree } from "./cli_commands.ts";
import type { CliAddress, CliCall, OwnWord } from "./cli_commands.ts";
import { extraCommands } from "./cli_extras.ts";
import { CLEAR_LINE, simulationNote, styleFor } from "./cli_output.ts";
import type { CliOutput } from "./cli_output.ts";
import { progressLine } from "./cli_progress.ts";
import { render } from "./cli_render.ts";
import { watchCall } from "./cli_watch.ts";
import type { Invoker } from "./invoker.ts";
import { printable } from "./printable.ts";

/** What the command line needs from the program around it. */
export interface CliParts {
  readonly version: string;
  readonly output: CliOutput;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly report: Report;
  /** Finds the service that the flags (and the configuration) name, or opens what may be read without one. */
  invoker(address: CliAddress): Promise<Invoker>;
  /** Commands with owners of their own; each gets what follows its first word and returns its exit code. */
  readonly commands: Readonly<Record<OwnWord, (args: readonly string[]) => Promise<number>>>;
  /** Flags of `serve` and `demo` for their help, kebab-case, with what they mean. */
  readonly serviceFlags: Readonly<Record<string, string>>;
}

/** Runs one command line and returns its exit code. */
export async function runCli(argv: readonly string[], parts: CliParts): Promise<number> {
  const args = expand(commandFirst(argv));
  if (args[0] === "--version" && args.includes("--json")) {
    parts.output.stdout(`${JSON.stringify({ version: parts.version })}\n`);
    return 0;
  }
  const wantsHelp = args.some((arg) => arg === "--help" || arg === "-h");
  const [word = "", ...rest] = args;
  try {
    if (isOwn(word, parts.commands) && !wantsHelp) return await parts.commands[word](rest);
    return await runCommand(args, parts);
  } catch (error) {
    const failure = asFailure(error, { operation: word, signal: parts.signal, report: parts.report });
    return tellRefusal(refusedBy(failure), { output: parts.output, isJson: args.includes("--json") });
  }
}

/** `hyperswap --port 9190 gpu` is `hyperswap gpu --port 9190`: what every command takes may stand before it. */
function commandFirst(argv: readonly string[]): readonly string[] {
  let at = 0;
  for (let arg = argv[at]; arg !== undefined; arg = argv[at]) {
    const isShared = arg === "--json" || SHARED_FLAGS.some((flag) => arg === flag || arg?.startsWith(`${flag}=`));
    if (!isShared) break;
    at += arg === "--json" || arg.includes("=") ? 1 : 2;
  }
  const rest = argv.slice(at);
  const [word] = rest;
  if (at === 0 || word === undefined || (word.startsWith("-") && word !== "--version")) return argv;
  // What follows `--` is no flag.
  const end = rest.includes("--") ? rest.indexOf("--") : rest.length;
  return [...rest.slice(0, end), ...argv.slice(0, at), ...rest.slice(end)];
}

const SHARED_FLAGS = ["--host", "--port", "--socket", "--token"];

/** `hyperswap` alone is `status`, with or without flags; `--stdio` and `--sse` are how MCP hosts know `mcp`. */
function expand(argv: readonly string[]): readonly string[] {
  const [first] = argv;
  if (first?.startsWith("-") && argv.includes("--stdio")) return ["mcp", ...argv.filter((arg) => arg !== "--stdio")];
  if (first?.startsWith("-") && argv.includes("--sse")) return ["mcp", ...argv];
  const isOwnFlag = first !== undefined && ["--help", "-h", "--version", "-v", "--helpAll"].includes(first);
  return first === undefined || (first.startsWith("-") && !isOwnFlag) ? ["status", ...argv] : argv;
}

function isOwn(word: string, commands: CliParts["commands"]): word is OwnWord {
  return Object.hasOwn(commands, word);
}

async function runCommand(args: readonly string[], parts: CliParts): Promise<number> {
  const { output } = parts;
  const isJson = args.includes("--json");
  let exit = 0;
  let thrown: unknown = null;
  const root = commandTree({
    operations,
    extras: extraCommands(parts.serviceFlags),
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

async function carryOut(call: CliCall, parts: CliParts): Promise<number> {
  const invoker = await parts.invoker(call.address);
  try {
    if (!call.isWatch) return await callOnce(call, { invoker, parts });
    const { output, signal } = parts;
    const refusal = await watchCall(call, { invoker, output, signal });
    return refusal === null ? 0 : tellRefusal(refusal, { output, isJson: call.isJson });
  } finally {
    invoker.close();
  }
}

async function callOnce(call: CliCall, at: { readonly invoker: Invoker; readonly parts: CliParts }): Promise<number> {
  const { output, signal } = at.parts;
  const showProgress = !call.isJson && output.isTerminal;
  const style = styleFor(output);
  const progress = (now: Progress) => {
    if (showProgress) output.stderr(CLEAR_LINE + progressLine(now, style));
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
  const style = styleFor(output);
  if (simulation !== null) output.stderr(simulationNote(simulation, style));
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
  const style = styleFor(output);
  output.stderr(`${style.bad("error:")} ${printable(refusal.message)}\n`);
  if (refusal.hint !== null) output.stderr(`${style.dim("hint:")} ${printable(refusal.hint)}\n`);
  if (isJson) output.stdout(`${JSON.stringify(errorBody(refusal))}\n`);
  return FAILURES[refusal.code].exit;
}
