/**
 * How a simulated card lies in shared memory: control words, gauges, process rows, strings. One writer, any number of
 * readers in any thread. Bytes stand in doubles (exact to 2^53); NaN means "this card has no answer".
 */

/** What the reader can be told to refuse, delay or block, by method of `Nvml`. */
export const CALLS = [
  "driverVersion",
  "nvmlVersion",
  "cudaVersion",
  "deviceCount",
  "deviceByIndex",
  "deviceByUuid",
  "name",
  "uuid",
  "pciBusId",
  "memory",
  "processes",
  "processUtilization",
  "utilization",
  "temperatureC",
  "thresholdC",
  "powerW",
  "powerLimitW",
  "enforcedPowerLimitW",
  "defaultPowerLimitW",
  "powerLimitRangeW",
  "energyJ",
  "clockMhz",
  "maxClockMhz",
  "pstate",
  "throttleReasons",
  "throttleTimesMs",
  "fanCount",
  "fanRangePct",
  "fanPct",
  "fanTargetPct",
  "fanRpm",
  "fanPolicy",
  "pcieGen",
  "pcieWidth",
  "pcieMaxGen",
  "pcieMaxWidth",
  "pcieThroughputKbps",
  "fieldValues",
  "supportedClocksMhz",
  "clockOffset",
  "watchXid",
  "setPowerLimitW",
  "lockClocks",
  "unlockClocks",
  "setClockOffset",
  "setFanPct",
  "setFanAuto",
] as const;
export type Call = typeof CALLS[number];

export const FANS = 4;

const PER_FAN = ["fanPct", "fanTargetPct", "fanRpm", "fanIsManual", "fanPinnedPct"] as const;
const GAUGE_NAMES = [
  "totalBytes",
  "reservedBytes",
  "usedBytes",
  "gpuUtilPct",
  "memoryUtilPct",
  "utilStampUs",
  "temperatureC",
  "memoryTemperatureC",
  "powerW",
  "powerLimitW",
  "enforcedLimitW",
  "defaultLimitW",
  "minLimitW",
  "maxLimitW",
  "energyJ",
  "graphicsMhz",
  "smMhz",
  "memoryMhz",
  "videoMhz",
  "maxGraphicsMhz",
  "maxSmMhz",
  "maxMemoryMhz",
  "maxVideoMhz",
  "pstate",
  "throttleReasons",
  "cappedMs",
  "shutdownC",
  "slowdownC",
  "memoryMaxC",
  "gpuMaxC",
  "fanCount",
  "fanMinPct",
  "fanMaxPct",
  "pcieGen",
  "pcieWidth",
  "pcieMaxGen",
  "pcieMaxWidth",
  "pcieTxKbps",
  "pcieRxKbps",
  "coreLockMhz",
  "memLockMhz",
  "coreOffsetMhz",
  "memOffsetMhz",
  "coreOffsetMinMhz",
  "coreOffsetMaxMhz",
  "memOffsetMinMhz",
  "memOffsetMaxMhz",
  "xidCount",
  "xidCode",
] as const;
export type Gauge = typeof GAUGE_NAMES[number];
export type FanGauge = typeof PER_FAN[number];

export const TEXTS = ["driverVersion", "nvmlVersion", "cudaVersion", "name", "uuid", "pciBusId"] as const;
export type Text = typeof TEXTS[number];

/** One row of the process list; both kinds may hold for one pid. */
export interface TableProcess {
  readonly pid: number;
  /** Null: the driver won't say. */
  readonly bytes: number | null;
  readonly isCompute: boolean;
  readonly isGraphics: boolean;
  readonly smPct: number;
}

const MAGIC = 0x4c414247;
const WORDS = {
  magic: 0,
  sequence: 1,
  wedged: 2,
  failAll: 3,
  memoryHeld: 4,
  processesHeld: 5,
  rows: 6,
  idle: 7,
} as const;
export type Word = keyof typeof WORDS;

const CODE_AT = 16;
const LAG_AT = CODE_AT + CALLS.length;
const GAUGE_BYTE = 8 * Math.ceil((LAG_AT + CALLS.length) / 2);
const FAN_AT = GAUGE_NAMES.length;
const ROW_AT = FAN_AT + PER_FAN.length * FANS;
const ROW_FIELDS = 5;
const MAX_ROWS = 64;
const TEXT_BYTE = GAUGE_BYTE + 8 * (ROW_AT + ROW_FIELDS * MAX_ROWS);
const TEXT_SIZE = 96;
export const TABLE_BYTES = TEXT_BYTE + TEXT_SIZE * TEXTS.length;

/** A write takes microseconds: a reader that meets one looks again this often before it gives up its core. */
const SPINS = 1_000;

/** A writer whose thread lost its core half-way is waited for, in turns of 1 ms; one that died isn't. */
const MOST_WAITS = 10_000;

/** Typed access to the shared memory. A sequence counter, odd while a write is under way, keeps readers from half a write. */
export class GpuPage {
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #bytes: Uint8Array;

  constructor(readonly buffer: SharedArrayBuffer) {
    if (buffer.byteLength !== TABLE_BYTES) throw new RangeError("Cannot open a GPU table: wrong size");
    this.#words = new Int32Array(buffer, 0, GAUGE_BYTE / 4);
    this.#doubles = new Float64Array(buffer, GAUGE_BYTE, ROW_AT + ROW_FIELDS * MAX_ROWS);
    this.#bytes = new Uint8Array(buffer);
  }

  format(): void {
    this.#doubles.fill(NaN);
    this.#words[WORDS.magic] = MAGIC;
  }

  isFormatted(): boolean {
    return this.#words[WORDS.magic] === MAGIC;
  }

  write(change: () => void): void {
    Atomics.add(this.#words, WORDS.sequence, 1);
    try {
      change();
    } finally {
      Atomics.add(this.#words, WORDS.sequence, 1);
    }
  }

  read<T>(look: () => T): T {
    for (let spins = 0, waits = 0; waits < MOST_WAITS; spins += 1) {
      const before = Atomics.load(this.#words, WORDS.sequence);
      const isWhole = before % 2 === 0;
      if (isWhole) {
        const seen = look();
        if (Atomics.load(this.#words, WORDS.sequence) === before) return seen;
      }
      if (isWhole || spins < SPINS) continue;
      Atomics.wait(this.#words, WORDS.sequence, before, 1);
      waits += 1;
    }
    throw new Error("Cannot read the GPU table: its writer stopped half-way");
  }

  word(name: Word): number {
    return Atomics.load(this.#words, WORDS[name]);
  }

  /** Wakes whoever waits for this word to change. */
  setWord(name: Word, value: number): void {
    Atomics.store(this.#words, WORDS[name], value);
    Atomics.notify(this.#words, WORDS[name]);
  }

  /** Blocks the calling thread while the word has that value, at most `ms`. */
  waitWhile(name: Word, { value, ms }: { readonly value: number; readonly ms?: number }): void {
    Atomics.wait(this.#words, WORDS[name], value, ms);
  }

  code(call: Call): number {
    return this.#words[CODE_AT + CALLS.indexOf(call)] ?? 0;
  }

  setCode(call: Call, code: number): void {
    this.#words[CODE_AT + CALLS.indexOf(call)] = code;
  }

  lagUs(call: Call): number {
    return this.#words[LAG_AT + CALLS.indexOf(call)] ?? 0;
  }

  setLagUs(call: Call, lagUs: number): void {
    this.#words[LAG_AT + CALLS.indexOf(call)] = lagUs;
  }

  gauge(name: Gauge): number {
    return this.#doubles[GAUGE_NAMES.indexOf(name)] ?? NaN;
  }

  setGauge(name: Gauge, value: number): void {
    this.#doubles[GAUGE_NAMES.indexOf(name)] = value;
  }

  fan(name: FanGauge, fan: number): number {
    return this.#doubles[FAN_AT + fan * PER_FAN.length + PER_FAN.indexOf(name)] ?? NaN;
  }

  setFan(name: FanGauge, { fan, value }: { readonly fan: number; readonly value: number }): void {
    if (fan < FANS) this.#doubles[FAN_AT + fan * PER_FAN.length + PER_FAN.indexOf(name)] = value;
  }

  processes(): TableProcess[] {
    const rows: TableProcess[] = [];
    for (let row = 0; row < this.word("rows"); row += 1) {
      const at = ROW_AT + row * ROW_FIELDS;
      const [pid = 0, bytes = NaN, isCompute = 0, isGraphics = 0, smPct = 0] = this.#doubles.subarray(
        at,
        at + ROW_FIELDS,
      );
      rows.push({
        pid,
        bytes: Number.isNaN(bytes) ? null : bytes,
        isCompute: isCompute === 1,
        isGraphics: isGraphics === 1,
        smPct,
      });
    }
    return rows;
  }

  setProcesses(rows: readonly TableProcess[]): void {
    if (rows.length > MAX_ROWS) throw new RangeError(`Cannot list ${rows.length} processes: the table has ${MAX_ROWS}`);
    rows.forEach((row, index) => {
      const values = [row.pid, row.bytes ?? NaN, row.isCompute ? 1 : 0, row.isGraphics ? 1 : 0, row.smPct];
      this.#doubles.set(values, ROW_AT + index * ROW_FIELDS);
    });
    Atomics.store(this.#words, WORDS.rows, rows.length);
  }

  text(name: Text): string {
    const at = TEXT_BYTE + TEXTS.indexOf(name) * TEXT_SIZE;
    // A copy: TextDecoder refuses shared memory.
    const bytes = this.#bytes.slice(at, at + TEXT_SIZE);
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(bytes.subarray(0, end < 0 ? TEXT_SIZE : end));
  }

  setText(name: Text, value: string): void {
    const at = TEXT_BYTE + TEXTS.indexOf(name) * TEXT_SIZE;
    this.#bytes.fill(0, at, at + TEXT_SIZE);
    this.#bytes.set(new TextEncoder().encode(value).subarray(0, TEXT_SIZE - 1), at);
  }
}
