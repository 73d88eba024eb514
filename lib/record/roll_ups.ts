import type { DatabaseSync, StatementSync } from "node:sqlite";
import { TELEMETRY_COLUMNS } from "./telemetry_table.ts";

/** How coarse a row of telemetry is. */
export type Grain = "raw" | "minute" | "hour";

export const GRAIN_S: Readonly<Record<Grain, number>> = { raw: 1, minute: 60, hour: 3_600 };
export const GRAIN_TABLE: Readonly<Record<Grain, string>> = {
  raw: "telemetry",
  minute: "telemetry_minute",
  hour: "telemetry_hour",
};

/** Columns that are summed up: bits have no average. */
export const ROLLED_UP: readonly string[] = Object.values(TELEMETRY_COLUMNS)
  .map(({ column }) => column)
  .filter((column) => column !== "throttle_reasons");

/** Sums seconds up to minutes, and minutes to hours, once each of them is over. */
export class RollUps {
  readonly #minutes: Level;
  readonly #hours: Level;
  /** Minutes of the past that got rows after they were summed up: the wall clock was set back. */
  readonly #late = new Set<number>();
  #newest: number | null = null;

  constructor(db: DatabaseSync) {
    this.#minutes = new Level(db, "minute", { from: "telemetry", figures: ROLLED_UP.map(fromSeconds), n: "count(*)" });
    this.#hours = new Level(db, "hour", { from: "telemetry_minute", figures: ROLLED_UP.map(fromRollUp), n: "sum(n)" });
  }

  /** Up to which second each level has been made. */
  get done(): { readonly minute: number; readonly hour: number } {
    return { minute: this.#minutes.done, hour: this.#hours.done };
  }

  /** After a transaction that was undone: what it had made is to be made again. */
  reload(): void {
    this.#minutes.reload();
    this.#hours.reload();
  }

  /** Told of every second that was written. */
  note(second: number): void {
    this.#newest = second;
    if (second < this.#minutes.done) this.#late.add(minuteOf(second));
  }

  /** To be called within a transaction, every few seconds. Makes at most `limit` rows, so that a backlog holds up nobody. */
  advance(limit: number): number {
    let made = 0;
    for (const minute of this.#late) {
      if (made >= limit) return made;
      if (this.#newest !== null && minute === minuteOf(this.#newest)) continue;
      this.#late.delete(minute);
      this.#minutes.make(minute);
      const hour = minute - minute % GRAIN_S.hour;
      if (hour < this.#hours.done) this.#hours.make(hour);
      made += 1;
    }
    made += this.#minutes.advance(limit - made, this.#minutes.newest());
    return made + this.#hours.advance(limit - made, this.#minutes.done);
  }

  /** Deletes rows older than the seconds given, at most `limit` of each; answers how many. */
  prune(before: { readonly minute: number; readonly hour: number }, limit: number): number {
    return this.#minutes.prune(before.minute, limit) + this.#hours.prune(before.hour, limit);
  }
}

interface Source {
  readonly from: string;
  readonly figures: readonly string[];
  /** How many seconds a row is of. */
  readonly n: string;
}

/** One table of sums, made of the next finer one. */
class Level {
  readonly #grainS: number;
  readonly #make: StatementSync;
  readonly #next: StatementSync;
  readonly #newest: StatementSync;
  readonly #save: StatementSync;
  readonly #saved: StatementSync;
  readonly #prune: StatementSync;
  readonly #grain: "minute" | "hour";
  #done: number;

  constructor(db: DatabaseSync, grain: "minute" | "hour", { from, figures, n }: Source) {
    const table = GRAIN_TABLE[grain];
    this.#grain = grain;
    this.#grainS = GRAIN_S[grain];
    // HAVING: an aggregate over nothing is a row all the same.
    this.#make = db.prepare(
      `INSERT OR REPLACE INTO ${table} SELECT ?, ${n}, ${figures.join(", ")} FROM ${from}
       WHERE second >= ? AND second < ? HAVING count(*) > 0`,
    );
    this.#next = db.prepare(`SELECT min(second) AS second FROM ${from} WHERE second >= ?`);
    this.#newest = db.prepare(`SELECT max(second) AS second FROM ${from}`);
    this.#save = db.prepare("INSERT OR REPLACE INTO roll_up_done (grain, second) VALUES (?, ?)");
    this.#prune = db.prepare(
      `DELETE FROM ${table} WHERE second IN (SELECT second FROM ${table} WHERE second < ? ORDER BY second LIMIT ?)`,
    );
    this.#saved = db.prepare("SELECT second FROM roll_up_done WHERE grain = ?");
    this.#done = this.reload();
  }

  reload(): number {
    const done = this.#saved.get(this.#grain)?.["second"];
    return this.#done = typeof done === "number" ? done : 0;
  }

  get done(): number {
    return this.#done;
  }

  /** The newest second of what it is made of; what it belongs to isn't over. */
  newest(): number {
    return Number(this.#newest.get()?.["second"] ?? 0);
  }

  make(second: number): void {
    this.#make.run(second, second, second + this.#grainS);
  }

  /** Makes what is over by `endSecond`, oldest first. */
  advance(limit: number, endSecond: number): number {
    const end = endSecond - endSecond % this.#grainS;
    if (this.#done >= end) return 0;
    let made = 0;
    let done = this.#done;
    while (done < end && made < limit) {
      const next = this.#next.get(done)?.["second"];
      const second = typeof next === "number" ? next - next % this.#grainS : end;
      if (second >= end) {
        done = end;
        break;
      }
      this.make(second);
      done = second + this.#grainS;
      made += 1;
    }
    this.#done = done;
    this.#save.run(this.#grain, done);
    return made;
  }

  prune(before: number, limit: number): number {
    return Number(this.#prune.run(before, limit).changes);
  }
}

function minuteOf(second: number): number {
  return second - second % GRAIN_S.minute;
}

function fromSeconds(column: string): string {
  return `min(${column}), CAST(round(avg(${column}) * 10) AS INTEGER), max(${column})`;
}

/** Weighted by how many seconds each minute is of. */
function fromRollUp(column: string): string {
  const average = `sum(${column}_avg10 * n) * 1.0 / sum(CASE WHEN ${column}_avg10 IS NULL THEN NULL ELSE n END)`;
  return `min(${column}_min), CAST(round(${average}) AS INTEGER), max(${column}_max)`;
}
