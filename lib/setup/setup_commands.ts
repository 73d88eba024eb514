/** The commands that work without a service, as the command line calls them: arguments in, text or a document out. */
import { parseArgs } from "node:util";
import { readEnvironment, surroundingsOf } from "../config/environment.ts";
import { Failure, messageOf } from "../model/failure.ts";
import { install, type InstallAnswer, uninstall } from "./install.ts";
import { type ClientChange, installMcp, uninstallMcp } from "./mcp_clients.ts";
import { thisProgram } from "./program.ts";

/** What a command says, to people and to programs. */
export interface SetupAnswer {
  readonly value: unknown;
  readonly text: string;
}

const INSTALL_FLAGS = { "dry-run": "boolean", root: "string", json: "boolean" } as const;
const MCP_FLAGS = { client: "string", print: "boolean", json: "boolean" } as const;

/** `hyperswap install` and `hyperswap uninstall`. */
export function installCommand(word: "install" | "uninstall", args: readonly string[]): SetupAnswer {
  const flags = readFlags(args, INSTALL_FLAGS);
  const isDryRun = flags["dry-run"] === true;
  const root = typeof flags["root"] === "string" ? flags["root"].replace(/\/+$/, "") : "";
  const answer = word === "install"
    ? install({ program: thisProgram(), root, isDryRun })
    : uninstall({ root, isDryRun });
  return { value: answer, text: installText(answer) };
}

/** `hyperswap mcp install` and `hyperswap mcp uninstall`. */
export function mcpClientsCommand(word: "install" | "uninstall", args: readonly string[]): SetupAnswer {
  const flags = readFlags(args, MCP_FLAGS);
  const { home } = surroundingsOf(readEnvironment());
  if (home === null) {
    throw new Failure("unavailable", "Cannot find MCP clients: HOME isn't set", {
      hint: "Run it as the user whose they are",
    });
  }
  const options = {
    home,
    program: thisProgram(),
    client: typeof flags["client"] === "string" ? flags["client"] : null,
    isPrint: flags["print"] === true,
  };
  const changes = word === "install" ? installMcp(options) : uninstallMcp(options);
  return { value: { clients: changes }, text: changes.map(changeText).join("") };
}

/** Flags as they are named; anything else is refused. */
export function readFlags(
  args: readonly string[],
  flags: Readonly<Record<string, "boolean" | "string">>,
): Readonly<Record<string, unknown>> {
  const options = Object.fromEntries(Object.entries(flags).map(([name, type]) => [name, { type }]));
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new Failure("invalid_input", `Cannot read the arguments: ${messageOf(error)}`, {
      hint: `It takes ${Object.keys(flags).map((name) => `--${name}`).join(", ")}`,
      cause: error,
    });
  }
}

function installText({ dry_run: isDryRun, steps, next, warning }: InstallAnswer): string {
  const width = Math.max(0, ...steps.map(({ path }) => path.length));
  const lines = steps.map(({ path, action, why }) => `${action.padEnd(8)} ${path.padEnd(width)}  ${why}\n`);
  const done = isDryRun ? "Nothing was done (--dry-run). Left to do after it:\n" : "Left to do, as root:\n";
  return `${lines.join("")}\n${done}${next.map((line) => `  ${line}\n`).join("")}\nWarning: ${warning}\n`;
}

function changeText({ title, file, action, entry }: ClientChange): string {
  const shown = action.startsWith("would") && entry !== null
    ? `${JSON.stringify({ hyperswap: entry }, null, 2)}\n`
    : "";
  return `${title}: ${action} (${file})\n${shown}`;
}
