/** The stub card's levers, in the file that every process with the stub loaded shares: see nvml_stub_card.h. */
import type { Lever } from "../../lib/model/card.ts";

/** First word of each; those with a number are rows of that many. */
const WORDS = {
  powerMw: 1,
  coreLockMax: 2,
  coreLockMin: 3,
  memLockMax: 4,
  memLockMin: 5,
  coreOffset: 6,
  memOffset: 7,
  fanPolicy: 8,
  fanPct: 12,
  fanMin: 16,
  ignore: 20,
  refuse: 26,
  calls: 32,
  memSnap: 38,
  coreOffsetMin: 39,
  coreOffsetMax: 40,
  memOffsetMin: 41,
  memOffsetMax: 42,
  temperature: 43,
  temperatureCode: 44,
  powerUsedMw: 45,
  utilization: 46,
  coreMhz: 47,
  memMhz: 48,
  setterLagMs: 49,
  xidCount: 50,
  xidSeen: 51,
  xids: 52,
} as const;
const WORD_COUNT = 68;
const LEVER_ROW = {
  power_limit_w: 0,
  lock_core_mhz: 1,
  lock_mem_mhz: 2,
  core_offset_mhz: 3,
  mem_offset_mhz: 4,
  fan: 5,
} as const satisfies Record<Lever, number>;

export type StubWord = keyof typeof WORDS;

/** What a card at stock shows, by lever. */
export const STUB_STOCK = {
  powerW: 320,
  coreLock: [0, 0],
  memLock: [0, 0],
  coreOffset: 0,
  memOffset: 0,
  fans: [["auto", 0], ["auto", 0]],
} as const;

/** Removes what `StubCard` made. */
export function removeStubCard(libraryPath: string): void {
  try {
    Deno.removeSync(`${libraryPath}.card`);
  } catch (error) {
    // Most stubs have no card.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** A card whose levers move. Made before its library is opened; goes with the stub. */
export class StubCard {
  readonly #path: string;
  constructor(libraryPath: string) {
    this.#path = `${libraryPath}.card`;
    Deno.writeFileSync(this.#path, new Uint8Array(WORD_COUNT * 4));
    this.write({
      powerMw: 320_000,
      coreOffsetMin: -1_000,
      coreOffsetMax: 1_000,
      memOffsetMin: -2_000,
      memOffsetMax: 6_000,
      temperature: 48,
      powerUsedMw: 30_000,
      coreMhz: 2_700,
      memMhz: 11_251,
    });
    for (const fan of [0, 1, 2, 3]) this.#put(WORDS.fanMin + fan, 30);
  }

  write(values: Partial<Record<StubWord, number>>): void {
    for (const [name, value] of Object.entries(values)) {
      // as: Object.entries widens the keys of a record that has only words.
      if (value !== undefined) this.#put(WORDS[name as StubWord], value);
    }
  }

  /** A setter that says yes and does nothing. */
  ignore(lever: Lever, isIgnored = true): void {
    this.#put(WORDS.ignore + LEVER_ROW[lever], isIgnored ? 1 : 0);
  }

  /** A setter that answers this code; 0 = over. */
  refuse(lever: Lever, code: number): void {
    this.#put(WORDS.refuse + LEVER_ROW[lever], code);
  }

  /** How often the setters of a lever were called. */
  calls(lever: Lever): number {
    return this.#get(WORDS.calls + LEVER_ROW[lever]);
  }

  fanMinimum(fan: number, pct: number): void {
    this.#put(WORDS.fanMin + fan, pct);
  }

  /** Another tool sets a fan by hand. */
  pinFan(fan: number, pct: number): void {
    this.#put(WORDS.fanPolicy + fan, 1);
    this.#put(WORDS.fanPct + fan, pct);
  }

  xid(code: number): void {
    const count = this.#get(WORDS.xidCount);
    this.#put(WORDS.xids + count % 16, code);
    this.#put(WORDS.xidCount, count + 1);
  }

  /** What the card is set to, straight from its state. */
  levers() {
    const fan = (index: number) => [
      this.#get(WORDS.fanPolicy + index) === 1 ? "manual" : "auto",
      this.#get(WORDS.fanPct + index),
    ];
    return {
      powerW: this.#get(WORDS.powerMw) / 1000,
      coreLock: [this.#get(WORDS.coreLockMin), this.#get(WORDS.coreLockMax)],
      memLock: [this.#get(WORDS.memLockMin), this.#get(WORDS.memLockMax)],
      coreOffset: this.#get(WORDS.coreOffset),
      memOffset: this.#get(WORDS.memOffset),
      fans: [fan(0), fan(1)],
    };
  }

  #get(word: number): number {
    const bytes = Deno.readFileSync(this.#path);
    return new DataView(bytes.buffer).getInt32(word * 4, true);
  }

  #put(word: number, value: number): void {
    // In place: the file is mapped.
    using file = Deno.openSync(this.#path, { write: true });
    file.seekSync(word * 4, Deno.SeekMode.Start);
    file.writeSync(new Uint8Array(new Int32Array([value]).buffer));
  }
}
