/** Owners for the commands that aren't operations, in tests that only want to see where a command line goes. */
import type { CliParts } from "../../lib/show/cli.ts";
import type { OwnWord } from "../../lib/show/cli_commands.ts";

type Owner = CliParts["commands"][OwnWord];

export function ownCommands(owner: (word: OwnWord) => Owner): CliParts["commands"] {
  return {
    serve: owner("serve"),
    demo: owner("demo"),
    top: owner("top"),
    export: owner("export"),
    mcp: owner("mcp"),
    config: owner("config"),
    doctor: owner("doctor"),
    install: owner("install"),
    uninstall: owner("uninstall"),
    completions: owner("completions"),
  };
}
