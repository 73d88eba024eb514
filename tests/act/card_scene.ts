/** A writer over the stub's card, with a journal in a folder of its own. */
import { openNvml } from "../../ffi/nvml.ts";
import { openCardJournal } from "../../lib/act/card_journal.ts";
import type { CardLibrary } from "../../lib/act/card_levers.ts";
import { CardWriter } from "../../lib/act/card_writer.ts";
import type { CardReason } from "../../lib/model/card.ts";
import type { GpuReading } from "../../lib/model/sample.ts";
import { type Stub, stubTest, type StubVariant } from "../stub/compile_stub.ts";
import { StubCard } from "../stub/stub_card.ts";

export const BY_PROFILE: CardReason = { by: "profile", profile: "comfy", text: "ComfyUI works" };
export const UUID = "GPU-stub-0";

export interface CardScene {
  readonly stub: Stub;
  readonly card: StubCard;
  readonly dir: string;
  readonly nvml: CardLibrary;
  /** Advances by hand. */
  readonly clock: { nowMs: number; wallMs(): number };
  /** Another writer, as a later process would have. */
  open(options?: { readonly marksUncleanEnd?: boolean; readonly nvml?: CardLibrary }): CardWriter;
}

export function cardTest(
  name: string,
  run: (scene: CardScene) => void | Promise<void>,
  variant: StubVariant = "full",
): void {
  stubTest(name, async (stub) => {
    const dir = await Deno.makeTempDir({ prefix: "card-" });
    const card = new StubCard(stub.path);
    using nvml = openNvml({ paths: [stub.path], readText: () => "", allowsChanges: true });
    const clock = { nowMs: 1_000_000, wallMs: () => clock.nowMs };
    const open: CardScene["open"] = (options = {}) =>
      new CardWriter({
        nvml,
        device: nvml.deviceByIndex(0),
        uuid: UUID,
        name: "stub",
        journal: openCardJournal(dir),
        clock,
        ...options,
      });
    try {
      await run({ stub, card, dir, nvml, clock, open });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }, variant);
}

/** A second of a card at work. */
export function reading(change: Partial<GpuReading> = {}): GpuReading {
  return {
    memory: null,
    processes: null,
    smPctByPid: null,
    gpuUtilPct: 98,
    memoryUtilPct: 40,
    temperatureC: 60,
    memoryTemperatureC: null,
    powerW: 200,
    powerLimitW: 320,
    energyJ: null,
    clocks: { graphicsMhz: 2_400, smMhz: 2_400, memoryMhz: 11_251, videoMhz: null },
    pstate: 2,
    throttleReasons: 0,
    throttledMs: null,
    fans: [],
    pcie: { gen: null, width: null, txKbps: null, rxKbps: null },
    ...change,
  };
}
