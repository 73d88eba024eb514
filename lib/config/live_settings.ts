import type { CachePolicy } from "../model/cache.ts";
import { cachePolicyOf } from "./policy.ts";
import { type Reload, reloadOf } from "./reload.ts";
import type { Config } from "./schema.ts";

/** The configuration of a service that runs: whoever asks when it is used sees what was read last. */
export class LiveSettings {
  /** One object for good; its values are those of now. */
  readonly cachePolicy: CachePolicy;
  readonly #atStart: Config;
  #now: Config;

  constructor(config: Config) {
    this.#atStart = config;
    this.#now = config;
    const cache = () => cachePolicyOf(this.#now);
    this.cachePolicy = {
      get budgetBytes() {
        return cache().budgetBytes;
      },
      get bytesPerS() {
        return cache().bytesPerS;
      },
      get reserveBytes() {
        return cache().reserveBytes;
      },
      get pinBudgetBytes() {
        return cache().pinBudgetBytes;
      },
      get atStart() {
        return cache().atStart;
      },
      get whenIdle() {
        return cache().whenIdle;
      },
      get idleMs() {
        return cache().idleMs;
      },
    };
  }

  get logLevel(): Config["log"]["level"] {
    return this.#now.log.level;
  }

  /** What is new since it was read last, and what has waited for a start since this one. */
  take(next: Config): Reload {
    const { applied } = reloadOf(this.#now, next);
    const { waiting } = reloadOf(this.#atStart, next);
    this.#now = next;
    return { applied, waiting };
  }
}

/** A reload in words, for log and history. */
export function reloadText({ applied, waiting }: Reload): string {
  const now = applied.length === 0 ? "nothing changes now" : `now in force: ${applied.join(", ")}`;
  const later = waiting.length === 0 ? "" : `; only after a restart: ${waiting.join(", ")}`;
  return `The configuration was read again: ${now}${later}`;
}
