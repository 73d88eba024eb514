import assert from "node:assert/strict";
import type { Catalogue } from "../../lib/model/catalogue.ts";
import type { Residency } from "../../lib/model/page_cache.ts";
import { checkCache } from "../../lib/services/cache_health.ts";

const CATALOGUE: Catalogue = {
  entries: [],
  files: [{ path: "/m/a", sizeBytes: 1, modifiedAtMs: null, id: "1:1" }],
  roots: ["/m"],
  places: [{ source: "ollama", path: "/m", origin: "configuration", problem: null }],
  problems: [],
  blobsByDigest: {},
  readAtMs: 0,
};

function states(catalogue: Catalogue | null, figures: readonly Residency[], crash: string | null = null) {
  const residency = new Map(figures.map((figure, index) => [String(index), figure]));
  return checkCache(catalogue, { crash, residency }).map(({ name, state, finding }) => `${name} ${state}: ${finding}`);
}

const unmeasurable = (cause: "gone" | "sparse"): Residency => ({
  kind: "unmeasurable",
  sizeBytes: 1,
  cause,
  reason: `it is ${cause}`,
  atMs: 0,
});

Deno.test("health says where models were found, what is wrong there, and what can't be measured", () => {
  assert.deepEqual(states(null, []), [
    "model_folders not_applicable: No model files were found",
    "residency not_applicable: Nothing was measured yet",
  ]);
  assert.deepEqual(states(CATALOGUE, [unmeasurable("gone")]), [
    "model_folders ok: 1 files in /m",
    "residency not_applicable: Nothing was measured yet",
  ]);
  const broken = { ...CATALOGUE, problems: [{ path: "x:1", problem: "no weights" }, { path: "y:1", problem: "" }] };
  assert.deepEqual(states(broken, [unmeasurable("sparse"), unmeasurable("gone")]), [
    "model_folders degraded: x:1: no weights and 1 more",
    "residency degraded: 1 of 2 files can't be measured: it is sparse",
  ]);
  assert.match(states(CATALOGUE, [], "EMFILE")[0] ?? "", /degraded: EMFILE/);
});
