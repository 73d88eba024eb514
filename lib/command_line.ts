/** What each command is carried out by; loaded when it is asked for, since most commands need little of it. */
import { findInvoker } from "./client.ts";
import { keepLoopbackDirect, readEnvironment, surroundingsOf } from "./config/environment.ts";
import { Failure, FAILURES } from "./model/failure.ts";
import { VERSION } from "./model/version.ts";
import { serviceFlags } from "./setup/program.ts";
import { type CliParts, runCli } from "./show/cli.ts";
import { extraCommands } from "./show/cli_extras.ts";
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
    commands: { ...serviceCommands(output, signal), ...setupCommands(output, signal) },
  });
}

type Commands = CliParts["commands"];
type ServiceCommands = Pick<Commands, "serve" | "demo" | "top" | "export" | "mcp">;

/** Those that are a service, or follow one. */
function serviceCommands(output: CliOutput, signal: AbortSignal): ServiceCommands {
  return {
    serve: async (args) => (await import("./app.ts")).serve(args),
    demo: async (args) => (await import("./app.ts")).demo(args),
    top: async (args) => {
      const { cliTop } = await import("./show/cli_top.ts");
      return await cliTop(args, { output, signal, clock: systemClock(), invoker: findInvoker });
    },
    export: async (args) => {
      const { cliExport } = await import("./show/cli_export.ts");
      return await cliExport(args, { output, signal, invoker: findInvoker });
    },
    mcp: async (args) => {
      const [word = "", ...rest] = args;
      if (word === "install" || word === "uninstall") {
        const { mcpClientsCommand } = await import("./setup/setup_commands.ts");
        return say(mcpClientsCommand(word, rest), { args, output });
      }
      const { cliMcp } = await import("./show/cli_mcp.ts");
      const stderr = (text: string) => output.stderr(text);
      return await cliMcp(args, { clock: systemClock(), signal, stderr, invoker: findInvoker });
    },
  };
}

/** Those that need none. */
function setupCommands(output: CliOutput, signal: AbortSignal): Omit<Commands, keyof ServiceCommands> {
  const installing = (word: "install" | "uninstall") => async (args: readonly string[]) => {
    const { installCommand } = await import("./setup/setup_commands.ts");
    return say(installCommand(word, args), { args, output });
  };
  return {
    install: installing("install"),
    uninstall: installing("uninstall"),
    config: async (args) => {
      const { configCommand } = await import("./setup/config_command.ts");
      return say(configCommand(args), { args, output });
    },
    completions: async ([shell = "", stranger]) => {
      if (stranger !== undefined) throw new Failure("invalid_input", `Unexpected argument "${stranger}"`);
      const { completions } = await import("./show/cli_completions.ts");
      output.stdout(completions(shell, extraCommands(serviceFlags())));
      return 0;
    },
    doctor: async (args) => {
      const { cliDoctor } = await import("./show/cli_doctor.ts");
      const { examine, writeBundle } = await import("./setup/doctor.ts");
      const { home } = surroundingsOf(readEnvironment());
      return await cliDoctor(args, {
        output,
        signal,
        invoker: findInvoker,
        at: new Date(systemClock().wallMs()).toISOString(),
        examine: (ask, where, at) => examine({ ask, where, at, home }),
        write: writeBundle,
      });
    },
  };
}

/** The answer of a command that asks nobody. */
function say(
  { value, text }: { readonly value: unknown; readonly text: string },
  to: { readonly output: CliOutput; readonly args: readonly string[] },
): number {
  to.output.stdout(to.args.includes("--json") ? `${JSON.stringify(value)}\n` : text);
  return 0;
}
