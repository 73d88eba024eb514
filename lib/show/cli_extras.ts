/** Commands that aren't operations, as help and completions list them. Whoever carries them out reads their flags. */
import type { ExtraCommand } from "./cli_commands.ts";

const ADDRESS = {
  host: "the service's host",
  port: "the service's port",
  socket: "the service's unix socket",
  token: "a token of access.tokens",
} as const;
const JSON_FLAG = { json: "print one JSON document" } as const;
const FROM = "ISO 8601 UTC, or how long ago: 90s, 30m, 24h, 7d";
const CLIENT = {
  client: "claude-desktop, cursor, antigravity or vscode; left out, every one that is installed",
  print: "show what would stand there, and write nothing",
} as const;
const INSTALL = {
  "dry-run": "say what would be done, and do nothing",
  root: "the folder to take for /, such as a package's",
} as const;

/** `serviceFlags`: those of `serve` and `demo`, with what they mean. */
export function extraCommands(serviceFlags: Readonly<Record<string, string>>): readonly ExtraCommand[] {
  return [
    { words: ["serve"], brief: "Run the service on this machine", flags: serviceFlags },
    { words: ["demo"], brief: "Run the service on a simulated box, with traffic", flags: serviceFlags },
    { words: ["top"], brief: "The whole box, live, until q or Ctrl-C", flags: { ...JSON_FLAG, ...ADDRESS } },
    {
      words: ["export"],
      brief: "Events, telemetry or autotune as JSON or CSV on standard output: hyperswap export events --from 24h",
      flags: {
        what: "events, telemetry or autotune",
        format: "json or csv",
        from: FROM,
        to: "until when",
        json: "the same as --format json",
        ...ADDRESS,
      },
    },
    {
      words: ["mcp"],
      brief: "Speak MCP on standard input and output (also --stdio), or over HTTP+SSE (--sse, on --port 8001)",
      flags: { sse: "listen on 127.0.0.1 for clients of the old HTTP+SSE transport", port: "where, with --sse" },
    },
    { words: ["mcp", "install"], brief: "Add HyperSwap to the MCP clients on this machine", flags: CLIENT },
    { words: ["mcp", "uninstall"], brief: "Take HyperSwap out of them again", flags: CLIENT },
    { words: ["config", "check"], brief: "Check the configuration and say what is wrong", flags: JSON_FLAG },
    { words: ["config", "show"], brief: "Print the configuration in force, secrets hidden", flags: JSON_FLAG },
    { words: ["config", "schema"], brief: "Print the configuration's JSON Schema", flags: JSON_FLAG },
    {
      words: ["doctor"],
      brief: "Write what a bug report needs into one file, secrets left out",
      flags: { output: "the file; - is standard output", ...JSON_FLAG, ...ADDRESS },
    },
    { words: ["install"], brief: "Put unit, sysctl drop-in and configuration in their places", flags: INSTALL },
    { words: ["uninstall"], brief: "Take away what install put there and nobody has changed since", flags: INSTALL },
    { words: ["completions"], brief: "Print completions: hyperswap completions bash|zsh|fish", flags: {} },
  ];
}
