/** What each command is carried out by; loaded when it is asked for, since most commands need little of it. */
import { findInvoker } from "./client.ts";
import { keepLoopbackDirect } from "./config/environment.ts";
import { FAILURES } from "./model/failure.ts";
import { VERSION } from "./model/version.ts";
import { serviceFlags } from "./setup/program.ts";
import { runCli } from "./show/cli.ts";
import type { CliOutput } from "./show/cli_output.ts";
import { systemClock } from "./system/clock.ts";

/** Runs one command line to its end; resolves with the exit code. */
export async function commandLine(argv: readonly string[], output: CliOutput): Promise<number> {
  keepLoopbackDirect();
  const interrupted = new AbortController();
  const { signal } = interrupted;
  Deno.addSignalListener("SIGINT", () => {
    // Once asks for an end in order; twice doesn't wait for it.
    if (signal.aborted) Deno.exit(FAILURES.cancelled.exit);
    interrupted.abort();
  });
  return await runCli(argv, {
    version: VERSION,
    output,
    signal,
    serviceFlags: serviceFlags(),
    report: (error) => {
      output.stderr(`${error instanceof Error ? error.stack : String(error)}\n`);
      return "see above";
    },
    invoker: findInvoker,
    commands: {
      serve: async (args) => (await import("./app.ts")).serve(args),
      demo: async (args) => (await import("./app.ts")).demo(args),
      top: async (args) => {
        const { cliTop } = await import("./show/cli_top.ts");
        return await cliTop(args, { output, signal, clock: systemClock(), invoker: findInvoker });
      },
      mcp: async (args) => {
        const { cliMcp } = await import("./show/cli_mcp.ts");
        const stderr = (text: string) => output.stderr(text);
        return await cliMcp(args, { clock: systemClock(), signal, stderr, invoker: findInvoker });
      },
      config: async (args) => {
        const { configCommand } = await import("./setup/config_command.ts");
        const answer = configCommand(args);
        output.stdout(args.includes("--json") ? `${JSON.stringify(answer.value)}\n` : answer.text);
        return 0;
      },
    },
  });
}
