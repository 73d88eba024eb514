import { canonical } from "../../lib/model/model_names.ts";
import assert from "node:assert/strict";
import { knownNeed, peakOf, remember } from "../../lib/decide/footprint.ts";
import { fits, needOf } from "../../lib/decide/need.ts";
import { findTargets, isRowTaken, matchRows } from "../../lib/decide/yield_targets.ts";
import { blobOf, gib, installed, ollama, policy, row, runner } from "./stories.ts";

const ALL = { models: null, keep: [] };

Deno.test("names: any case, with or without tag, host and namespace", () => {
  for (const name of ["alpha", "Alpha:latest", "library/alpha", "registry.ollama.ai/library/alpha:LATEST"]) {
    assert.equal(canonical(name), "alpha:latest");
  }
  assert.equal(canonical("hf.co/someone/Model"), "hf.co/someone/model:latest");
  assert.equal(canonical("localhost:5000/ns/model"), "localhost:5000/ns/model:latest");
});

Deno.test("a row's process is exact: manifest, weight blob, the child whose --model ends in it", () => {
  const rows = matchRows(
    [runner(1, "beta:latest"), runner(2, "alpha:latest")],
    [row("alpha:latest"), row("beta:latest")],
    ollama(),
  );
  assert.deepEqual([rows.get(1)?.name, rows.get(2)?.name], ["beta:latest", "alpha:latest"]);
});

Deno.test("MLX names its model instead of a blob", () => {
  const mlx = runner(1, "x", { generation: "mlx", blob: null, modelName: "Alpha" });
  assert.equal(matchRows([mlx], [row("alpha:latest")], ollama()).get(1)?.name, "alpha:latest");
});

Deno.test("one runner and one row whose blobs aren't known can only belong together", async (test) => {
  const unknown = ollama({ blobsByDigest: {} });
  await test.step("one and one", () => {
    assert.equal(matchRows([runner(1, "alpha:latest")], [row("alpha:latest")], unknown).get(1)?.name, "alpha:latest");
  });
  await test.step("two runners and one row: neither is guessed", () => {
    const runners = [runner(1, "alpha:latest"), runner(2, "beta:latest")];
    assert.equal(matchRows(runners, [row("alpha:latest")], unknown).size, 0);
  });
  await test.step("a runner that is known to be another model's isn't it", () => {
    const { blobsByDigest } = ollama();
    const names = ollama({ blobsByDigest: { "digest-beta:latest": blobsByDigest["digest-beta:latest"] ?? [] } });
    assert.equal(matchRows([runner(2, "beta:latest")], [row("alpha:latest")], names).size, 0);
  });
});

Deno.test("an orphan has no row: the rows are another server's", () => {
  const rows = matchRows([runner(1, "alpha:latest", { isOrphan: true })], [row("alpha:latest")], ollama());
  assert.equal(rows.size, 0);
});

Deno.test("keep and named models count by every tag of the blob", () => {
  const alias = installed("twin:latest", { digest: "digest-twin" });
  const names = ollama({ installed: [installed("alpha:latest"), alias] });
  const blobsByDigest = { ...names.blobsByDigest, "digest-twin": [blobOf("alpha:latest")] };
  const both = { ...names, blobsByDigest };
  assert.equal(isRowTaken(row("alpha:latest"), { models: null, keep: ["twin"] }, both), false);
  assert.equal(isRowTaken(row("alpha:latest"), { models: ["twin"], keep: [] }, both), true);
  assert.equal(isRowTaken(row("alpha:latest"), { models: ["beta"], keep: [] }, both), false);
});

Deno.test("a runner of no known name belongs to a yield of everything alone", () => {
  const stranger = [runner(1, "nobody-knows")];
  const find = (scope: { models: readonly string[] | null; keep: readonly string[] }) =>
    findTargets([], { runners: stranger, resident: [], names: ollama(), scope }).length;
  assert.equal(find(ALL), 1);
  assert.equal(find({ models: null, keep: ["alpha"] }), 0);
  assert.equal(find({ models: ["alpha"], keep: [] }), 0);
});

Deno.test("a target stays one when its process or its row is gone, and what was known of it stays known", () => {
  const names = ollama();
  const first = findTargets([], {
    runners: [runner(1, "alpha:latest")],
    resident: [row("alpha:latest")],
    names,
    scope: ALL,
  });
  assert.deepEqual(findTargets(first, { runners: [], resident: [], names, scope: ALL }), first);
  const [later] = findTargets(first, { runners: [runner(1, "alpha:latest")], resident: [], names, scope: ALL });
  assert.deepEqual([later?.isListed, later?.claimsVram, later?.model], [true, true, "alpha:latest"]);
  const reused = findTargets(first, {
    runners: [runner(1, "beta:latest", { startTime: 99 })],
    resident: [],
    names,
    scope: ALL,
  });
  assert.equal(reused.length, 2, "the same pid with another start time is another process");
});

Deno.test("needs: configured before measured, by any spelling; measured never below three", () => {
  const stays = (...gibs: number[]) => gibs.map((each) => peakOf(gib(each)));
  const footprints = { "alpha:latest": stays(3, 5, 4), "beta:latest": stays(2, 2), comfyui: [] };
  assert.equal(needOf("alpha", policy(), footprints), gib(5));
  assert.equal(needOf("beta", policy(), footprints), null);
  assert.equal(needOf("comfyui", policy(), footprints), null);
  assert.equal(needOf("alpha", policy({ needs: { "Alpha:latest": gib(7) } }), footprints), gib(7));
});

Deno.test("the largest of the last ten measurements counts", () => {
  let footprints = {};
  for (let gibs = 12; gibs >= 1; gibs--) {
    footprints = remember(footprints, { key: "comfyui", measured: peakOf(gib(gibs)) });
  }
  assert.equal(knownNeed(footprints, "comfyui"), gib(10));
});

Deno.test("fits: with the headroom, and never by an unknown", () => {
  const headroom = policy().yield.headroomBytes;
  assert.equal(fits(gib(4), gib(4) + headroom, policy()), true);
  assert.equal(fits(gib(4), gib(4) + headroom - 1, policy()), false);
  assert.equal(fits(null, gib(16), policy()), false);
  assert.equal(fits(0, null, policy()), false);
});
