/** Kills a process that sets stub cards at a moment drawn from a seed, restores, and says what was found. */
import { openNvml } from "../../ffi/nvml.ts";
import { openCardJournal } from "../../lib/act/card_journal.ts";
import { CardWriter } from "../../lib/act/card_writer.ts";
import { openStub, type Stub } from "../stub/compile_stub.ts";
import { STUB_STOCK, StubCard } from "../stub/stub_card.ts";
import { mulberry } from "./mulberry.ts";

/** What another tool had set, which the driver never touches. */
const OTHERS_OFFSET = 77;

export interface KillCount {
  readonly killed: number;
  /** Not at stock when the process was gone. */
  readonly foundChanged: number;
  /** Not at stock after the restore. */
  readonly leftChanged: number;
  /** A lever that was never touched has moved, or its setter was called. */
  readonly untouchedMoved: number;
  /** Cards whose restore reported no unclean end although something had been changed. */
  readonly untold: number;
}

/** One process, `cards` cards, one kill. */
export async function killDriver(options: { readonly seed: number; readonly cards: number }): Promise<KillCount> {
  const stubs: { readonly stub: Stub; readonly card: StubCard; readonly dir: string }[] = [];
  for (let at = 0; at < options.cards; at++) {
    const stub = await openStub("full");
    const card = new StubCard(stub.path);
    // Slow setters: many kills fall between a journal's line and the change, or between two levers.
    card.write({ setterLagMs: 1, coreOffset: OTHERS_OFFSET });
    stubs.push({ stub, card, dir: await Deno.makeTempDir({ prefix: "kill-" }) });
  }
  try {
    await driveAndKill(options.seed, stubs.flatMap(({ stub, dir }) => [stub.path, dir]));
    const counts = stubs.map(restoreAndCount);
    const sum = (pick: (count: KillCount) => number) => counts.reduce((total, count) => total + pick(count), 0);
    return {
      killed: counts.length,
      foundChanged: sum((count) => count.foundChanged),
      leftChanged: sum((count) => count.leftChanged),
      untouchedMoved: sum((count) => count.untouchedMoved),
      untold: sum((count) => count.untold),
    };
  } finally {
    for (const { stub, dir } of stubs) {
      stub[Symbol.dispose]();
      await Deno.remove(dir, { recursive: true });
    }
  }
}

async function driveAndKill(seed: number, places: readonly string[]): Promise<void> {
  const script = new URL("card_driver.ts", import.meta.url).pathname;
  const args = ["run", "-A", "--no-check", "--quiet", script, String(seed), ...places];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped" }).spawn();
  const random = mulberry(seed + 1);
  let left = 1 + Math.floor(random() * 40 * places.length / 2);
  const reader = child.stdout.getReader();
  while (left > 0) {
    const { value, done } = await reader.read();
    if (done) throw new Error("Cannot kill the driver: it has ended by itself");
    left -= value.length;
  }
  child.kill("SIGKILL");
  await reader.cancel();
  await child.status;
}

function restoreAndCount({ stub, card, dir }: { stub: Stub; card: StubCard; dir: string }): KillCount {
  const stock = JSON.stringify({ ...STUB_STOCK, coreOffset: OTHERS_OFFSET });
  const isStock = () => JSON.stringify(card.levers()) === stock;
  const foundChanged = isStock() ? 0 : 1;
  using nvml = openNvml({ paths: [stub.path], readText: () => "", allowsChanges: true });
  const device = nvml.deviceByIndex(0);
  const uuid = nvml.uuid(device);
  const journal = openCardJournal(dir);
  const clock = { wallMs: () => 0 };
  const report = new CardWriter({ nvml, device, uuid, name: "stub", journal, clock }).restore("journal");
  return {
    killed: 1,
    foundChanged,
    leftChanged: isStock() ? 0 : 1,
    untouchedMoved: card.levers().coreOffset === OTHERS_OFFSET && card.calls("core_offset_mhz") === 0 ? 0 : 1,
    untold: foundChanged === 1 && report.uncleanEnd === null ? 1 : 0,
  };
}
