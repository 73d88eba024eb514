/**
 * A process that sets stub cards until it is killed: profiles, a governor's fans and power, a lever by hand. Arguments:
 * a seed, then a library and a state directory for each card. One byte on stdout per setting, so that its killer can
 * choose a moment.
 */
import { openNvml } from "../../ffi/nvml.ts";
import { openCardJournal } from "../../lib/act/card_journal.ts";
import { CardWriter } from "../../lib/act/card_writer.ts";
import type { CardReason, CardSetting } from "../../lib/model/card.ts";
import { mulberry } from "./mulberry.ts";

const REASONS: readonly CardReason[] = [
  { by: "profile", profile: "comfy", text: "ComfyUI works" },
  { by: "governor", profile: "comfy", text: "hot" },
  { by: "operator", profile: "comfy", text: "by hand" },
];

/** The core offset is never touched: another tool's stands there. */
const SETTINGS: readonly ((random: () => number) => CardSetting)[] = [
  (random) => ({ power_limit_w: 150 + Math.floor(random() * 250), lock_core_mhz: "stock", lock_mem_mhz: "stock" }),
  (random) => ({ fan: 30 + Math.floor(random() * 70), power_limit_w: "stock" }),
  (random) => ({ lock_core_mhz: 1_000 + Math.floor(random() * 2_000), mem_offset_mhz: Math.floor(random() * 1_000) }),
  (random) => ({ lock_mem_mhz: random() < 0.5 ? 5_001 : 11_251, fan: "stock", mem_offset_mhz: "stock" }),
  () => ({ power_limit_w: "stock", lock_core_mhz: "stock", lock_mem_mhz: "stock", fan: "stock" }),
];

const [seed = "1", ...places] = Deno.args;
const random = mulberry(Number(seed));
const writers: CardWriter[] = [];
for (let at = 0; at < places.length; at += 2) {
  const [path = "", stateDir = ""] = places.slice(at, at + 2);
  const nvml = openNvml({ paths: [path], readText: () => "", allowsChanges: true });
  const journal = openCardJournal(stateDir);
  const clock = { wallMs: () => Date.now() };
  const device = nvml.deviceByIndex(0);
  writers.push(new CardWriter({ nvml, device, uuid: nvml.uuid(device), name: "stub", journal, clock }));
}
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T; // within bounds
for (;;) {
  for (const writer of writers) {
    writer.apply(pick(SETTINGS)(random), pick(REASONS));
    Deno.stdout.writeSync(new Uint8Array([46]));
  }
}
