/** What every command knows of the program itself. */
import { configKeys, FLAG_KEYS } from "../config/keys.ts";
export { VERSION } from "../model/version.ts";

/** What each flag of `serve` and `demo` means, for their help. */
export function serviceFlags(): Readonly<Record<string, string>> {
  const descriptions = new Map(configKeys().map((key) => [key.path, key.description]));
  return {
    config: "TOML file with the configuration",
    ...Object.fromEntries(Object.entries(FLAG_KEYS).map(([flag, path]) => [flag, descriptions.get(path) ?? path])),
  };
}
