/** What every command knows of the program itself. */
import { configKeys, FLAG_KEYS } from "../config/keys.ts";
export { VERSION } from "../model/version.ts";

/** How this very program is started again. */
export interface Program {
  readonly path: string;
  /** Before its own arguments. */
  readonly args: readonly string[];
  /** False: from source, by a Deno that is somebody else's. */
  readonly isBinary: boolean;
}

export function thisProgram(): Program {
  const path = Deno.execPath();
  if (Deno.build.standalone) return { path, args: [], isBinary: true };
  return { path, args: ["run", "-A", new URL(Deno.mainModule).pathname], isBinary: false };
}

/** What each flag of `serve` and `demo` means, for their help. */
export function serviceFlags(): Readonly<Record<string, string>> {
  const descriptions = new Map(configKeys().map((key) => [key.path, key.description]));
  return {
    config: "TOML file with the configuration",
    ...Object.fromEntries(Object.entries(FLAG_KEYS).map(([flag, path]) => [flag, descriptions.get(path) ?? path])),
  };
}
