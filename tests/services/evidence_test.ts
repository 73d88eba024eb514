import assert from "node:assert/strict";
import type { Throughput } from "../../lib/model/history.ts";
import { EvidenceKeeper } from "../../lib/services/evidence.ts";
import { AT_MS, row } from "../record/store_contract.ts";

function open(profile: string | null = null) {
  const kept: Throughput[] = [];
  const keeper = new EvidenceKeeper({
    store: { throughput: (one) => void kept.push(one) },
    profile: () => profile,
  });
  // Ten idle seconds, then ten of work; the last five throttled for heat.
  for (let second = 0; second < 20; second++) {
    const isBusy = second >= 10;
    keeper.second({
      ...row(AT_MS + second * 1_000),
      powerW: isBusy ? 300 : 30,
      throttleReasons: second >= 15 ? 0x40 : 0x4,
      fanPct: null,
    });
  }
  return { kept, keeper };
}

const swap = { id: 1, atMs: AT_MS + 19_000, kind: "swap" } as const;

Deno.test("a swap that generated is kept with what the card did while it did", () => {
  const { kept, keeper } = open("comfy");
  keeper.recorded({ ...swap, fields: { model: "a", tokens_per_sec: 73.5, total_ms: 12_000, load_ms: 3_000 } });
  const [one] = kept;
  assert.deepEqual([one?.workload, one?.model, one?.perSecond, one?.basis, one?.profile], [
    "ollama",
    "a",
    73.5,
    "generation",
    "comfy",
  ]);
  assert.deepEqual([one?.durationMs, one?.powerW, one?.throttledPct, one?.fanPct], [9_000, 300, 50, null]);
});

Deno.test("a swap that only loaded, another event, and a speed of nothing are no evidence", () => {
  const { kept, keeper } = open();
  keeper.recorded({ ...swap, fields: { model: "a", tokens_per_sec: null } });
  keeper.recorded({ ...swap, fields: { model: "a", tokens_per_sec: 0 } });
  keeper.recorded({ ...swap, kind: "yield", fields: { model: "a", tokens_per_sec: 70 } });
  assert.equal(kept.length, 0);
  keeper.recorded({ ...swap, fields: { model: "a", tokens_per_sec: 9, spilled: true } });
  assert.equal(kept[0]?.basis, "generation, spilled");
});

Deno.test("a prompt is kept where its steps were seen and its graph says what it was", () => {
  const { kept, keeper } = open();
  const timed = { perSecond: 6.5, steps: 19, durationMs: 3_000 };
  const base = { promptId: "p", status: "success", startedAtMs: null, endedAtMs: AT_MS + 19_000, error: null } as const;
  const work = { model: "sd_xl_base.safetensors", size: "1024x1024" };
  keeper.completed({ ...base, work }, null, 0);
  keeper.completed(base, timed, 0);
  keeper.completed({ ...base, work, status: "error" }, timed, 0);
  assert.equal(kept.length, 0);
  keeper.completed({ ...base, work }, timed, 0);
  assert.deepEqual([kept[0]?.workload, kept[0]?.model, kept[0]?.basis, kept[0]?.perSecond], [
    "comfy",
    "sd_xl_base.safetensors",
    "1024x1024",
    6.5,
  ]);
});

Deno.test("a prompt whose steps nobody showed us counts by its history, and only with its like", () => {
  const { kept, keeper } = open();
  const work = { model: "sd_xl_base.safetensors", size: "1024x1024", steps: 20 };
  const cached = { model: true, sampler: false };
  const endedAtMs = AT_MS + 19_000;
  const base = { promptId: "p", status: "success", startedAtMs: endedAtMs - 4_000, endedAtMs, error: null } as const;
  // It loaded its model; it was answered from the cache; it was too short to be work.
  keeper.completed({ ...base, work, cached: { model: false, sampler: false } }, null, 0);
  keeper.completed({ ...base, work, cached: { model: true, sampler: true } }, null, 0);
  keeper.completed({ ...base, work, cached, startedAtMs: endedAtMs - 30 }, null, 0);
  assert.equal(kept.length, 0);
  keeper.completed({ ...base, work, cached }, null, 0);
  const [one] = kept;
  assert.deepEqual([one?.perSecond, one?.basis], [5, "1024x1024, 20 steps, whole prompt"]);
});
