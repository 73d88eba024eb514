/** Direct and gated answers of the lab's servers are equal. */
import { openBox } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { comfyPairs, comparePairs, ollamaPairs } from "./pairs.ts";

const LIMIT_MS = 120_000;

Deno.test("direct and gated answers are equal: the lab's Ollama and ComfyUI", async () => {
  const clock = new LabClock();
  const dir = await Deno.makeTempDir({ prefix: "gate_pairs_" });
  try {
    await using box = await openBox({ clock, dir, driverHolds: false });
    const until = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
    const [model] = box.ollama.installed;
    // Generating takes the lab's clock a while; real servers are asked everything.
    const ollama = ollamaPairs(model?.name ?? "").slice(0, 17);
    await comparePairs({ tenant: "ollama", url: box.ollama.url, clock, until, requests: ollama });
    await comparePairs({ tenant: "comfyui", url: box.comfy.url, clock, until, requests: comfyPairs() });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
