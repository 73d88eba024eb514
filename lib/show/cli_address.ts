/** `--host`, `--port`, `--socket` and `--token` for commands whose other arguments are none of the parser's. */
import { parseArgs } from "node:util";
import { Failure, messageOf } from "../model/failure.ts";
import { addressOf } from "./cli_commands.ts";
import type { CliAddress } from "./cli_commands.ts";

/** The address in these arguments; anything else in them is refused. */
export function readAddress(args: readonly string[]): CliAddress {
  return splitAddress(args, {}).address;
}

/** The address, and the command's own flags beside it; anything else is refused. */
export function splitAddress(
  args: readonly string[],
  own: Readonly<Record<string, "string" | "boolean">>,
): { readonly address: CliAddress; readonly values: Readonly<Record<string, unknown>> } {
  const option = { type: "string" } as const;
  const options = {
    ...{ host: option, port: option, socket: option, token: option },
    ...Object.fromEntries(Object.entries(own).map(([name, type]) => [name, { type }])),
  };
  try {
    const { values } = parseArgs({ args: [...args], options });
    return { address: addressOf(values), values };
  } catch (error) {
    throw new Failure("invalid_input", `Cannot read the arguments: ${messageOf(error)}`, {
      hint: `It takes ${Object.keys(options).map((name) => `--${name}`).join(", ")}`,
      cause: error,
    });
  }
}
