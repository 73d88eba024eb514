/** The dashboard's panel of the gate. */
import assert from "node:assert/strict";
import type { Play } from "./dashboard_scenes.ts";

export const gateScene: Play = async (fake, open) => {
  const base = fake.stats;
  const { page, complaints } = await open(fake.url);
  const gate = page.getByRole("region", { name: "Gate" });
  assert.equal(await gate.count(), 0, "closed, it isn't there");

  const since = new Date(base.timestamp * 1_000 - 95_000).toISOString();
  const common = { tenant: "comfyui", path: "/prompt", priority: "interactive", since } as const;
  const counts = { passed: 41, held: 3, refused: 1, lapsed: 2, open: { blind: 4, paused: 5 }, retried: 1 };
  const arbitration = {
    ...base.arbitration,
    gate: { ollama: "http://127.0.0.1:11435", comfyui: "http://127.0.0.1:8189" },
    held: [
      {
        ...common,
        id: "a",
        what: "sd_xl.safetensors",
        reason: "the driver hasn't Ollama's memory back yet",
        position: 0,
      },
      { ...common, id: "b", what: null, priority: "batch" as const, reason: "Ollama answers a request", position: 1 },
    ],
    gate_counts: counts,
  };
  fake.push({ ...base, arbitration });
  await gate.getByText("2 held").waitFor();
  const [first, second] = await gate.locator(".gate-row").allInnerTexts();
  assert.match(
    first ?? "",
    /ComfyUI\s+sd_xl\.safetensors\s+\d+ min( \d+ s)?\s+the driver hasn't Ollama's memory back yet/,
  );
  assert.match(second ?? "", /\/prompt\s+batch[^]*1 before it · Ollama answers a request/);
  await gate.getByText("41 passed, 3 of them held first, 1 refused, 2 left before, 1 retried").waitFor();
  await gate.getByText("Passed unheld, since nobody could decide: 4 blind, 5 paused").waitFor();
  await gate.getByText("ComfyUI http://127.0.0.1:8189").waitFor();

  fake.push({ ...base, arbitration: { ...arbitration, held: [] } });
  await gate.getByText("nobody held").waitFor();
  assert.deepEqual(complaints, []);
};
