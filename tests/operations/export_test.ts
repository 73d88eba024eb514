import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import type { HistoryItem, HistoryKind } from "../../lib/model/history.ts";
import type { Services, SpanRequest } from "../../lib/model/services.ts";
import { csvCell, exportRecord } from "../../lib/operations/export.ts";
import { fakeBox } from "./fake_box.ts";

const SIGNAL = new AbortController().signal;
const AT_MS = Date.UTC(2026, 0, 1, 12);

function event(id: number, kind: HistoryKind, fields: HistoryItem["fields"]): HistoryItem {
  return { id, atMs: AT_MS + id * 1_000, kind, fields };
}

/** Pages as they are asked for; `taken` counts those. */
function servicesWith(pages: readonly (readonly HistoryItem[])[]) {
  const taken: number[] = [];
  const asked: SpanRequest[] = [];
  const { services } = fakeBox();
  const analytics: Services["analytics"] = {
    ...services.analytics,
    async *events(span) {
      asked.push(span);
      for (const [at, page] of pages.entries()) {
        taken.push(at);
        yield await Promise.resolve(page);
      }
    },
  };
  return { services: { ...services, analytics }, taken, asked };
}

async function textOf(services: Services, input: Record<string, unknown>): Promise<string> {
  const { chunks } = await exportRecord.begin(services, input, SIGNAL);
  let text = "";
  for await (const chunk of chunks) text += chunk;
  return text;
}

Deno.test("events as JSON are one array over all pages, as history has them", async () => {
  const { services } = servicesWith([[event(1, "swap", { model: "a" })], [], [event(2, "yield", { message: "b" })]]);
  assert.deepEqual(JSON.parse(await textOf(services, { what: "events" })), [
    { model: "a", id: 1, at: "2026-01-01T12:00:01.000Z", kind: "swap" },
    { message: "b", id: 2, at: "2026-01-01T12:00:02.000Z", kind: "yield" },
  ]);
});

Deno.test("an empty record is an empty array, and a CSV with its head alone", async () => {
  const { services } = servicesWith([[]]);
  assert.deepEqual(JSON.parse(await textOf(services, { what: "events" })), []);
  assert.equal(await textOf(services, { what: "events", format: "csv" }), "id,at,kind,message,fields\r\n");
});

Deno.test("CSV quotes what must be, and text that a spreadsheet would compute is marked as text", async () => {
  const { services } = servicesWith([[event(1, "fault", { message: '=HYPERLINK("x"), or\nnot', pid: 4 })]]);
  const [, line] = (await textOf(services, { what: "events", format: "csv" })).split("\r\n");
  assert.equal(line, `1,2026-01-01T12:00:01.000Z,fault,"'=HYPERLINK(""x""), or\nnot","{""pid"":4}"`);
  assert.deepEqual([csvCell(-3.5), csvCell(null), csvCell("-x"), csvCell(true)], ["-3.5", "", "'-x", "true"]);
});

Deno.test("a sweep's step has a row for each raw sample", async () => {
  const samples = [{ per_second: 6.5, count: 19, duration_ms: 2900, seed: 7 }, { per_second: 6.6, seed: 8 }];
  const step = event(1, "autotune", { event: "step", knob: "power_limit_w", value: 370, samples });
  const { services, asked } = servicesWith([[step, event(2, "autotune", { event: "result", end: "flat" })]]);
  const lines = (await textOf(services, { what: "autotune", format: "csv" })).trimEnd().split("\r\n");
  assert.equal(lines.length, 4);
  assert.match(lines[1] ?? "", /,power_limit_w,.*,370,.*,6\.5,19,2900,7$/);
  assert.match(lines[3] ?? "", /,result,.*,flat,/);
  assert.equal(asked[0]?.kind, "autotune");
});

Deno.test("a page is read only when the one before it was taken, and none after the reader has gone", async () => {
  const pages = Array.from({ length: 50 }, (_, at) => [event(at + 1, "use", {})]);
  const { services, taken } = servicesWith(pages);
  const { chunks } = await exportRecord.begin(services, { what: "events", from: "24h" }, SIGNAL);
  for await (const _chunk of chunks) {
    if (taken.length >= 3) break;
  }
  assert.deepEqual(taken, [0, 1, 2]);
});

Deno.test("what can't be had at all is refused before anything is sent", async () => {
  const { services } = fakeBox();
  const analytics: Services["analytics"] = {
    ...services.analytics,
    // deno-lint-ignore require-yield -- it fails before its first page
    async *events() {
      throw await Promise.resolve(new Failure("unavailable", "Nothing is kept"));
    },
  };
  const begun = exportRecord.begin({ ...services, analytics }, { what: "events" }, SIGNAL);
  await assert.rejects(begun, { code: "unavailable" });
  await assert.rejects(exportRecord.begin(services, { what: "all" }, SIGNAL), { code: "invalid_input" });
  await assert.rejects(exportRecord.begin(services, { what: "events", from: "soon" }, SIGNAL), {
    code: "invalid_input",
  });
});
