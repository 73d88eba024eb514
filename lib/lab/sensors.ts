import type { Timer } from "../model/ports.ts";
import type { CardSpec, ClockSet } from "./card_spec.ts";
import type { Ground } from "./ground.ts";
import { LabClock } from "./lab_clock.ts";
import type { SetLevers } from "./table_levers.ts";

const TICK_MS = 200;
/** Decoding never drew more than 224 W on the measured card; diffusion runs into the power limit. */
const DECODE_W = 222;
const AMBIENT_C = 27;
/** °C above ambient for each watt, once everything has warmed up. */
const WARMTH_C_PER_W = 0.155;
const WARM_UP_MS = 28_000;
/** How quickly power follows the load: the driver shows a one-second average. */
const POWER_MS = 900;
const BUSY_CLOCKS: ClockSet = { graphics: 2_745, sm: 2_745, memory: 11_251, video: 2_145 };
const GPU_IDLE = 1;
const SW_POWER_CAP = 4;

export interface Workload {
  /** Multiprocessor use by image generation, and by anything else; percent. */
  readonly imagePct: number;
  readonly otherPct: number;
}

/** Moves the card's sensors after its load, with the inertia that metal has. */
export class SensorModel implements Timer {
  readonly #ground: Ground;
  readonly #workload: () => Workload;
  readonly #timer: Timer;
  #powerW: number;
  #temperatureC = AMBIENT_C + 8;
  #energyJ = 0;
  #cappedMs = 0;
  #fanPct = 0;
  #lastUsedBytes = 0;

  constructor(ground: Ground, workload: () => Workload) {
    this.#ground = ground;
    this.#workload = workload;
    this.#powerW = ground.table.card.idleW;
    const tick = () => this.#tick();
    const { clock } = ground;
    this.#timer = clock instanceof LabClock ? clock.everyQuietly(TICK_MS, tick) : clock.every(TICK_MS, tick);
    this.#tick();
  }

  stop(): void {
    this.#timer.stop();
  }

  #tick(): void {
    const { table, clock, random, vram } = this.#ground;
    const { card } = table;
    const { imagePct, otherPct } = this.#workload();
    const loadPct = Math.min(100, Math.max(imagePct, otherPct));
    const { levers } = table;
    this.#ground.pace.follow(levers);
    const limitW = levers.powerLimitW;
    const wantedW = card.idleW + (limitW - card.idleW) * imagePct / 97 + (DECODE_W - card.idleW) * otherPct / 97;
    const noise = loadPct > 0 ? random.between(-4, 4) : random.between(-0.6, 0.6);
    const targetW = Math.min(limitW, Math.max(card.idleW, wantedW + noise));
    this.#powerW += (targetW - this.#powerW) * share(POWER_MS);
    this.#energyJ += this.#powerW * TICK_MS / 1_000;
    const warmC = AMBIENT_C + this.#powerW * WARMTH_C_PER_W * (1 - this.#fanPct / 700);
    this.#temperatureC += (warmC - this.#temperatureC) * share(WARM_UP_MS);
    // A pinned fan takes a moment to get there, too.
    this.#fanPct = levers.fanPct === null
      ? fanFor({ temperatureC: this.#temperatureC, card, beforePct: this.#fanPct })
      : this.#fanPct + (levers.fanPct - this.#fanPct) * share(1_500);
    const isCapped = loadPct > 0 && this.#powerW > limitW - 3;
    if (isCapped) this.#cappedMs += TICK_MS;
    const growthKbps = Math.max(0, vram.usedBytes - this.#lastUsedBytes) / 1_024 / (TICK_MS / 1_000);
    this.#lastUsedBytes = vram.usedBytes;
    const isAwake = loadPct > 0 || growthKbps > 0;
    table.setSensors({
      gpuUtilPct: Math.round(loadPct),
      memoryUtilPct: Math.round(imagePct * 0.42 + otherPct * 0.86),
      temperatureC: Math.round(this.#temperatureC),
      powerW: Math.round(this.#powerW * 10) / 10,
      energyJ: Math.round(this.#energyJ),
      clocks: clocksFor({ card, levers, isAwake, isCapped, jitter: random.whole(-1, 1) * 15 }),
      pstate: isAwake ? 2 : 8,
      throttleReasons: isCapped ? SW_POWER_CAP : isAwake ? 0 : GPU_IDLE,
      cappedMs: this.#cappedMs,
      fanPct: Math.round(this.#fanPct),
      fanRpm: Math.round(this.#fanPct / 100 * card.fanMaxRpm),
      pcieGen: isAwake ? card.pcieMaxGen : 1,
      pcieRxKbps: Math.round(growthKbps + loadPct * 210),
      pcieTxKbps: Math.round(loadPct * 95),
    });
    table.stampUtilization(Math.round(clock.wallMs() * 1_000));
  }
}

/** The part of the way that is gone in one tick, for something that takes about `ms`. */
function share(ms: number): number {
  return 1 - Math.exp(-TICK_MS / ms);
}

/** Still below 50 °C, then a slope; it doesn't stop again before 44. */
function fanFor({ temperatureC, card, beforePct }: {
  readonly temperatureC: number;
  readonly card: CardSpec;
  readonly beforePct: number;
}): number {
  if (temperatureC < 44 || (beforePct === 0 && temperatureC < 50)) return 0;
  const wanted = card.fanMinPct + Math.max(0, temperatureC - 52) * 1.6;
  const target = Math.min(card.fanMaxPct, wanted);
  return beforePct === 0 ? card.fanMinPct : beforePct + (target - beforePct) * share(3_000);
}

function clocksFor({ card, levers, isAwake, isCapped, jitter }: {
  readonly card: CardSpec;
  readonly levers: SetLevers;
  readonly isAwake: boolean;
  readonly isCapped: boolean;
  readonly jitter: number;
}): ClockSet {
  if (!isAwake) return card.idleClocks;
  const free = BUSY_CLOCKS.graphics - (isCapped ? 90 : 0) + jitter + levers.coreOffsetMhz;
  const graphics = Math.min(free, levers.lockCoreMhz ?? card.maxClocks.graphics);
  const memory = Math.min(BUSY_CLOCKS.memory + levers.memOffsetMhz / 2, levers.lockMemMhz ?? Infinity);
  return { ...BUSY_CLOCKS, graphics, sm: graphics, memory };
}
