/** `hyperswap export`: the record on standard output, as it is read. */
import { Failure } from "../model/failure.ts";
import type { Download } from "../operations/download.ts";
import { fromText } from "../operations/parameters.ts";
import { exportRecord } from "../operations/export.ts";
import { readAddress } from "./cli_address.ts";
import type { CliAddress } from "./cli_commands.ts";
import type { CliOutput } from "./cli_output.ts";
import { failureOf, type Invoker } from "./invoker.ts";

export interface ExportParts {
  readonly output: CliOutput;
  readonly signal: AbortSignal;
  invoker(address: CliAddress): Promise<Invoker>;
}

/** Writes it to its end; resolves with the exit code. */
export async function cliExport(
  args: readonly string[],
  { output, signal, invoker: find }: ExportParts,
): Promise<number> {
  const { input, rest } = readFlags(args, exportRecord);
  const invoker = await find(readAddress(rest));
  try {
    const text = await invoker.download(exportRecord, input, signal);
    if ("ok" in text) throw failureOf(text);
    for await (const chunk of text.chunks) {
      output.stdout(chunk);
      if (output.gone?.aborted === true) break;
    }
    return 0;
  } finally {
    invoker.close();
  }
}

/** Its own flags, and `what` without one; the rest says where the service is. */
function readFlags(
  args: readonly string[],
  { parameters }: Pick<Download, "parameters">,
): { readonly input: Record<string, unknown>; readonly rest: readonly string[] } {
  const input: Record<string, unknown> = {};
  const rest: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    // JSON is one of the formats here; everywhere else the flag asks for it, so it does here.
    const arg = args[at] === "--json" ? "--format=json" : args[at] ?? "";
    const [name = "", inline] = arg.startsWith("--") ? arg.slice(2).split(/=(.*)/s) : ["what", arg];
    const parameter = parameters.find((known) => known.name === name);
    if (parameter === undefined) {
      rest.push(arg);
      // A flag of the address with its value apart.
      if (inline === undefined && args[at + 1] !== undefined) rest.push(args[++at] ?? "");
      continue;
    }
    const value = inline ?? args[++at];
    if (value === undefined) throw new Failure("invalid_input", `--${name} takes a value`);
    if (name in input) {
      throw new Failure("invalid_input", `Parameter ${name} was given twice`, { details: { parameter: name } });
    }
    input[name] = fromText(parameter, value);
  }
  return { input, rest };
}
