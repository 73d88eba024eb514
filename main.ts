/** argv → `serve`, `demo`, or a command of the CLI. */
import { serviceFlags, VERSION } from "./lib/setup/program.ts";
import { runCli } from "./lib/show/cli.ts";
import { processOutput } from "./lib/show/cli_output.ts";

const interrupted = new AbortController();
Deno.addSignalListener("SIGINT", () => interrupted.abort());
const output = processOutput();

Deno.exit(
  await runCli(Deno.args, {
    version: VERSION,
    output,
    signal: interrupted.signal,
    serviceFlags: serviceFlags(),
    report: (error) => {
      output.stderr(`${error instanceof Error ? error.stack : String(error)}\n`);
      return "see above";
    },
    invoker: async (address) => (await import("./lib/app.ts")).findInvoker(address),
    commands: {
      serve: async (args) => (await import("./lib/app.ts")).serve(args),
      demo: async (args) => (await import("./lib/app.ts")).demo(args),
      config: async (args) => {
        const { configCommand } = await import("./lib/setup/config_command.ts");
        const answer = configCommand(args);
        output.stdout(args.includes("--json") ? `${JSON.stringify(answer.value)}\n` : answer.text);
        return 0;
      },
    },
  }),
);
