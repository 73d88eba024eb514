/** `hyperswap doctor`: asks the service what a bug report needs, and has it written down. */
import { operationNamed } from "../operations/registry.ts";
import { ignoreProgress } from "../operations/operation.ts";
import { splitAddress } from "./cli_address.ts";
import type { CliAddress } from "./cli_commands.ts";
import type { CliOutput } from "./cli_output.ts";
import { failureOf, type Invoker } from "./invoker.ts";

type Ask = (operation: string, input: Readonly<Record<string, unknown>>) => Promise<unknown>;

export interface DoctorCall {
  readonly output: CliOutput;
  readonly signal: AbortSignal;
  invoker(address: CliAddress): Promise<Invoker>;
  /** ISO time. */
  readonly at: string;
  examine(ask: Ask, where: string, at: string): Promise<object>;
  write(path: string, bundle: object): void;
}

/** Writes the bundle; resolves with the exit code. */
export async function cliDoctor(args: readonly string[], call: DoctorCall): Promise<number> {
  const { output, signal, at } = call;
  const { address, values } = splitAddress(args, { output: "string", json: "boolean" });
  const invoker = await call.invoker(address);
  try {
    const ask: Ask = async (name, input) => {
      const outcome = await invoker.invoke(operationNamed(name), input, { signal, progress: ignoreProgress });
      if (!outcome.ok) throw failureOf(outcome);
      return outcome.value;
    };
    const bundle = await call.examine(ask, invoker.where, at);
    signal.throwIfAborted();
    const named = typeof values["output"] === "string" ? values["output"] : null;
    if (named === "-") {
      output.stdout(`${JSON.stringify(bundle)}\n`);
      return 0;
    }
    const path = named ?? `hyperswap-doctor-${at.slice(0, 19).replaceAll(":", "")}Z.json`;
    call.write(path, bundle);
    const text =
      `Wrote ${path}. Read it before you send it: secrets are left out, names of models and programs aren't\n`;
    output.stdout(values["json"] === true ? `${JSON.stringify({ path })}\n` : text);
    return 0;
  } finally {
    invoker.close();
  }
}
