/**
 * The box of the hand-offs bench, in a thread of its own as a real machine's servers are: what the simulation costs must
 * not stand in the way of the house that is measured. Plays the rounds beside it, since they read the box's own log.
 */
import { type Box, openBox } from "../../lib/lab/box.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { type HandOff, playHandOffs, type Said } from "../hand_offs/hand_offs.ts";
import { type Site, siteOf } from "../hand_offs/lab_house.ts";

export type ToLab =
  | { readonly kind: "open"; readonly dir: string; readonly seed: number }
  | { readonly kind: "play"; readonly rounds: number; readonly seed: number }
  | { readonly kind: "said"; readonly said: Said }
  | { readonly kind: "close" };

export type FromLab =
  | { readonly kind: "open"; readonly site: Site; readonly table: SharedArrayBuffer }
  | { readonly kind: "played"; readonly handOffs: readonly HandOff[] }
  | { readonly kind: "closed" };

const clock = systemClock();
const said: Said[] = [];
let box: Box | null = null;

self.addEventListener("message", (event: MessageEvent<ToLab>) => {
  if (event.data.kind === "said") said.push(event.data.said);
  else answer(event.data).then((reply) => self.postMessage(reply), rethrow);
});

async function answer(message: Exclude<ToLab, { kind: "said" }>): Promise<FromLab> {
  if (message.kind === "open") {
    box = await openBox({ profile: "h200", driverHolds: false, clock, dir: message.dir, seed: message.seed });
    return { kind: "open", site: siteOf(box), table: box.table.buffer };
  }
  if (box === null) throw new Error(`Cannot ${message.kind}: no box is open`);
  if (message.kind === "play") {
    const { rounds, seed } = message;
    const pass = (ms: number) => clock.sleep(ms);
    const handOffs = await playHandOffs({ box, rounds, seed, said, settle: (promise) => promise, pass });
    return { kind: "played", handOffs };
  }
  await box[Symbol.asyncDispose]();
  if (box.errors.length > 0) throw new AggregateError(box.errors, "The lab's own code failed");
  return { kind: "closed" };
}

/** Out of the promise, so that the Worker's `error` event tells the bench. */
function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
