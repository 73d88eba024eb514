/** `--host`, `--port`, `--socket` and `--token` for commands whose other arguments are none of the parser's. */
import { parseArgs } from "node:util";
import { Failure, messageOf } from "../model/failure.ts";
import { addressOf } from "./cli_commands.ts";
import type { CliAddress } from "./cli_commands.ts";

/** The address in these arguments; anything else in them is refused. */
export function readAddress(args: readonly string[]): CliAddress {
  const option = { type: "string" } as const;
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { host: option, port: option, socket: option, token: option },
    });
    return addressOf(values);
  } catch (error) {
    throw new Failure("invalid_input", `Cannot read the arguments: ${messageOf(error)}`, {
      hint: "It takes --host, --port, --socket and --token",
      cause: error,
    });
  }
}
