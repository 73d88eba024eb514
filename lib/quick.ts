/** `hyperswap --json` from the running service, with nothing loaded that this doesn't need (cli_quick.ts says why). */
import { addressOf } from "./config/address.ts";
import { readEnvironment } from "./config/environment.ts";
import { askQuickly, type Endpoint, quickFlags } from "./show/cli_quick.ts";
import { type CliOutput, simulationNote, styleFor } from "./show/cli_output.ts";
import { systemClock } from "./system/clock.ts";

/** A service that takes longer is left to the full search, which waits as long and then says so. */
const PATIENCE_MS = 2_000;

/** Answers and is true; false: nothing was said, the whole command line has to. */
export async function answerQuickly(argv: readonly string[], output: CliOutput): Promise<boolean> {
  const flags = quickFlags(argv);
  if (flags === null) return false;
  const address = await addressOf({
    flags,
    env: readEnvironment(),
    readFile: Deno.readTextFileSync,
    isRoot: Deno.uid() === 0,
  });
  if (address === null) return false;
  const endpoints: Endpoint[] = [
    ...address.sockets.map((path) => ({ transport: "unix" as const, path })),
    ...(address.tcp === null ? [] : [{ transport: "tcp" as const, ...address.tcp }]),
  ];
  const answer = await askQuickly(endpoints, {
    token: address.token,
    signal: systemClock().deadline(PATIENCE_MS),
  });
  if (answer === null) return false;
  if (answer.simulation !== null) output.stderr(simulationNote(answer.simulation, styleFor(output)));
  output.stdout(`${answer.text}\n`);
  return true;
}
