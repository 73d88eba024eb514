import assert from "node:assert/strict";
import type { HistoryItem } from "../../lib/model/history.ts";
import { DEFAULT_ACCESS } from "../../lib/show/access.ts";
import { type Metrics, openMetrics, wantsOpenMetrics } from "../../lib/show/metrics.ts";
import { openRest } from "../../lib/show/rest.ts";
import { fakeBox } from "../operations/fake_box.ts";

const START_MS = Date.UTC(2026, 0, 1, 11);

/** Values by name and labels. */
async function read(text: Promise<string>): Promise<ReadonlyMap<string, number>> {
  const lines = (await text).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}

function item(id: number, kind: HistoryItem["kind"], fields: HistoryItem["fields"]): HistoryItem {
  return { id, atMs: START_MS + id * 1_000, kind, fields };
}

function valueOf(values: ReadonlyMap<string, number>, name: string): number | undefined {
  return [...values].find(([key]) => key === name || key.startsWith(`${name},`) || key.startsWith(`${name}{`))?.[1];
}

Deno.test("the card, the buckets, the tenants, the store and the process are shown in base units", async () => {
  const box = fakeBox();
  const values = await read(textOf(openMetrics(box.services)));
  assert.equal(values.get("hyperswap_gpu_up"), 1);
  assert.equal(valueOf(values, 'hyperswap_gpu_memory_bytes{state="total"'), 16 * 2 ** 30);
  assert.ok((values.get('hyperswap_vram_bytes{bucket="ollama"}') ?? 0) > 2 ** 30);
  assert.equal(values.get('hyperswap_tenant_up{tenant="ollama"}'), 1);
  assert.equal(values.get("hyperswap_store_bytes"), 4_096);
  assert.equal(values.get('hyperswap_store_rows{table="events"}'), 2);
  assert.equal(values.get("hyperswap_health"), 1);
  assert.ok((values.get("hyperswap_process_resident_bytes") ?? 0) > 2 ** 20);
});

Deno.test("what isn't known is absent, not zero; without a card only its absence is shown", async () => {
  const box = fakeBox();
  const metrics = openMetrics(box.services);
  await metrics.page(null);
  const { sample } = box.services.live.snapshot();
  box.show({
    sample: {
      ...sample,
      gpu: { available: false, kind: "wedged", reason: "overdue", remedy: "reboot", facts: null },
      comfy: { ...sample.comfy, online: false, queueRemaining: null },
    },
  });
  const values = await read(textOf(metrics));
  assert.equal(values.get("hyperswap_gpu_up"), 0);
  assert.deepEqual([...values.keys()].filter((key) => /^hyperswap_(vram_|gpu_(?!up))/.test(key)), []);
  assert.equal(values.get("hyperswap_comfyui_queue_prompts"), undefined);
  metrics.close();
  assert.equal(box.subscribers, 0);
});

Deno.test("each event counts once, however often it is shown; a margin counts when it becomes known", async () => {
  const box = fakeBox();
  const metrics = openMetrics(box.services);
  const old = { ...item(1, "swap", { load_ms: 900, class: "cold" }), atMs: START_MS - 1 };
  const swap = item(2, "swap", { load_ms: 900, class: "ram_hit" });
  const given = item(3, "yield", { outcome: "released", confirm_ms: 400, margin_ms: null });
  box.show({ history: [given, swap, old] });
  box.show({ history: [item(4, "purge", { outcome: "released", confirm_ms: 600 }), given, swap, old] });
  box.show({ history: [{ ...given, fields: { ...given.fields, margin_ms: -20 } }, swap, old] });
  const values = await read(textOf(metrics));
  assert.equal(values.get('hyperswap_swap_load_seconds_count{class="ram_hit"}'), 1);
  assert.equal(values.get('hyperswap_swap_load_seconds_count{class="cold"}'), undefined);
  assert.equal(values.get("hyperswap_yield_confirm_seconds_sum"), 0.4);
  assert.equal(values.get("hyperswap_purge_confirm_seconds_count"), 1);
  assert.equal(values.get("hyperswap_hand_off_margin_seconds_count"), 1);
  assert.equal(values.get("hyperswap_late_hand_offs_total"), 1);
  assert.equal(values.get('hyperswap_events_total{kind="yield",outcome="released"}'), 1);
  metrics.close();
});

Deno.test("/metrics is served to whoever may read, before the first sample too", async () => {
  const box = fakeBox({ isBlank: true });
  const rest = openRest({ ...box, access: () => DEFAULT_ACCESS, assets: new Map() });
  const request = new Request("http://localhost/metrics", { headers: { host: "localhost" } });
  const response = await rest.fetch(request, { transport: "unix" });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await response.text(), /hyperswap_gpu_up 0/);
  await rest.close();
  assert.equal(box.subscribers, 0);
});

async function textOf(metrics: Metrics, accept: string | null = null): Promise<string> {
  return (await metrics.page(accept)).text;
}

Deno.test("OpenMetrics goes to who asks for it: its type, its end mark, and every family once", async () => {
  const box = fakeBox();
  const metrics = openMetrics(box.services);
  const accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  const [open, plain] = await Promise.all([metrics.page(accept), metrics.page("text/plain")]);
  assert.match(open.contentType, /^application\/openmetrics-text; version=1\.0\.0/);
  assert.match(plain.contentType, /^text\/plain; version=0\.0\.4/);
  assert.ok(open.text.endsWith("# EOF\n"));
  assert.ok(!plain.text.includes("# EOF"));
  // In the text format, the family has its sample's name, also after a page in the other format.
  assert.match(plain.text, /# TYPE hyperswap_late_hand_offs_total counter\nhyperswap_late_hand_offs_total 0/);
  const families = open.text.split("\n").filter((line) => line.startsWith("# TYPE "));
  assert.equal(new Set(families.map((line) => line.split(" ")[2])).size, families.length);
  // A counter's family has no suffix there, its sample has.
  assert.match(open.text, /# TYPE hyperswap_late_hand_offs counter\nhyperswap_late_hand_offs_total 0/);
  metrics.close();
});

Deno.test("who prefers the text format, or says nothing, is given that", () => {
  assert.equal(wantsOpenMetrics(null), false);
  assert.equal(wantsOpenMetrics("*/*"), false);
  assert.equal(wantsOpenMetrics("text/plain;q=0.9, application/openmetrics-text;q=0.3"), false);
  assert.equal(wantsOpenMetrics("application/openmetrics-text;q=0"), false);
  assert.equal(wantsOpenMetrics("application/openmetrics-text; version=1.0.0"), true);
});
