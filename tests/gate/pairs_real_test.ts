/** Direct and gated answers of real servers are equal. Runs where somebody started them. */
import { systemClock } from "../../lib/system/clock.ts";
import { comfyPairs, comparePairs, ollamaPairs } from "./pairs.ts";

const ollama = Deno.env.get("HYPERSWAP_TEST_OLLAMA") ?? "";
const comfyui = Deno.env.get("HYPERSWAP_TEST_COMFYUI") ?? "";

async function smallestModel(url: string): Promise<string> {
  // As the server documents it; a server that answers otherwise fails the test here.
  const { models } = await (await fetch(`${url}/api/tags`)).json() as { models: { name: string; size: number }[] };
  const [smallest] = models.toSorted((a, b) => a.size - b.size);
  if (smallest === undefined) throw new Error("There is no model to ask for");
  return smallest.name;
}

Deno.test({
  name: "direct and gated answers are equal: a real Ollama",
  ignore: ollama === "",
  fn: async () => {
    const requests = ollamaPairs(await smallestModel(ollama));
    await comparePairs({ tenant: "ollama", url: ollama, clock: systemClock(), requests });
  },
});

Deno.test({
  name: "direct and gated answers are equal: a real ComfyUI",
  ignore: comfyui === "",
  fn: async () => {
    await comparePairs({ tenant: "comfyui", url: comfyui, clock: systemClock(), requests: comfyPairs() });
  },
});
