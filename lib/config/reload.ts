/** What a configuration that was read again changes in a service that runs. */
import type { Config } from "./schema.ts";

export interface Reload {
  /** Paths that count from now on, such as `arbitration.headroom_mb`. */
  readonly applied: readonly string[];
  /** Paths that have changed in the file and count from the next start. */
  readonly waiting: readonly string[];
}

/** Sections and keys that can change while it runs; whatever else was opened or handed on at the start. */
const LIVE = [
  "arbitration",
  "comfyui.idle_purge_s",
  "comfyui.purge_ceiling_ms",
  "comfyui.heal_partial",
  "gate.most_held",
  "gate.deadline_s",
  "gate.age_s",
  "gate.batch",
  "load",
  "classify",
  "needs",
  "warm.at_start",
  "warm.when_idle",
  "warm.idle_s",
  "warm.budget_gb",
  "warm.throttle_mbps",
  "warm.reserve_gb",
  "pin",
  "access",
  "profiles",
  "governor",
  "log.level",
] as const;

/** Compares two configurations key by key. */
export function reloadOf(before: Config, after: Config): Reload {
  const changed = changedPaths(before, after);
  const isLive = (path: string) => LIVE.some((live) => path === live || path.startsWith(`${live}.`));
  return { applied: changed.filter(isLive), waiting: changed.filter((path) => !isLive(path)) };
}

/** Sections hold keys; `needs` is a table of names, and counts as one. */
function changedPaths(before: Config, after: Config): string[] {
  return Object.entries(after).flatMap(([section, values]) => {
    const old: unknown = Reflect.get(before, section);
    if (section === "needs") return isSame(old, values) ? [] : [section];
    return Object.entries(values).flatMap(([name, value]) =>
      isSame(valueAt(old, name), value) ? [] : [`${section}.${name}`]
    );
  });
}

function valueAt(section: unknown, name: string): unknown {
  return typeof section === "object" && section !== null ? Reflect.get(section, name) : undefined;
}

/** Both come from the same schema, so their keys stand in the same order. */
function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
