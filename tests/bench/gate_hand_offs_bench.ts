/**
 * The measured hand-offs, 200 times through the gate over real sockets, every second one with its weights in RAM; and
 * without the gate in the same boxes. Lab time: what the gate adds is counted in the box's own milliseconds.
 */
import { GatedBox, type HandOff } from "../gate/measured_hand_offs.ts";
import { type Bench, type Figure, quantile } from "../tasks/figures.ts";

const ROUNDS = 200;
/** Each box has its own seed, and so its own times of release and of first growth. */
const ROUNDS_PER_BOX = 20;
const CONTROLS_PER_BOX = 2;

export const bench: Bench = {
  name: "gate_hand_offs",
  about: "hand-offs through the gate against the same ones from the side: margin, half loads, what the hold adds",
  async measure(): Promise<readonly Figure[]> {
    const gated: HandOff[] = [];
    const controls: HandOff[] = [];
    for (let seed = 1; gated.length < ROUNDS; seed += 1) {
      await using box = await GatedBox.open(seed);
      for (let round = 0; round < ROUNDS_PER_BOX; round += 1) {
        gated.push(await box.handOff(round % 2 === 0 ? "ram" : "disk", { isGated: true }));
      }
      for (let round = 0; round < CONTROLS_PER_BOX; round += 1) {
        controls.push(await box.handOff("ram", { isGated: false }));
      }
    }
    const n = gated.length;
    const inTime = gated.filter(({ marginMs }) => marginMs !== null && marginMs > 0);
    const added = gated.map(({ heldMs, confirmMs }) => (heldMs ?? Infinity) - (confirmMs ?? 0));
    const halves = gated.filter(({ isWhole }) => !isWhole).length;
    const late = controls.filter(({ marginMs }) => marginMs !== null && marginMs < 0).length;
    const halfControls = controls.filter(({ isWhole }) => !isWhole).length;
    return [
      { name: "margin positive", value: inTime.length, unit: "of 200", bar: { atLeast: ROUNDS }, n },
      { name: "least margin", value: least(inTime), unit: "ms", bar: null, n },
      { name: "half loads", value: halves, unit: "", bar: { atMost: 0 }, n },
      { name: "held beyond the release, p99", value: quantile(added, 0.99), unit: "lab ms", bar: { atMost: 15 }, n },
      { name: "held beyond the release, most", value: Math.max(...added), unit: "lab ms", bar: null, n },
      { name: "late without the gate", value: late, unit: `of ${controls.length}`, bar: null, n: controls.length },
      { name: "half loads without", value: halfControls, unit: `of ${controls.length}`, bar: null, n: controls.length },
    ];
  },
};

function least(handOffs: readonly HandOff[]): number | null {
  return handOffs.length === 0 ? null : Math.min(...handOffs.map(({ marginMs }) => marginMs ?? Infinity));
}
