/** argv → the answer that needs nothing loaded, else the command line. */
import { answerQuickly } from "./lib/quick.ts";
import { processOutput } from "./lib/show/cli_output.ts";

const output = processOutput();
const isAnswered = await answerQuickly(Deno.args, output);
const code = isAnswered ? 0 : await (await import("./lib/command_line.ts")).commandLine(Deno.args, output);
Deno.exit(output.exitAfter(code));
