/**
 * The dashboard on the demo, in a real Chromium. With `-- --picture` it also waits until the chart tells a story and
 * renews static/demo.png, the README's picture.
 */
import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import type { Stats } from "../../lib/operations/stats.ts";
import { findChromium, inBrowser, lowContrast, type Open, sidewaysOverflow } from "./dashboard_browser.ts";
import { FROM_SOURCE, RunningService } from "./running_service.ts";

const PICTURE = new URL("../../static/demo.png", import.meta.url);
const PICTURE_LIMIT_BYTES = 400_000;
/** How much of the chart the picture shall show. */
const STORY_MS = 480_000;
/** The demo's traffic takes turns; a turn comes within a minute or so. */
const TURN_MS = 120_000;

/** Kinds of event that the timeline shows unasked. */
const MOVES: readonly string[] = ["yield", "purge", "swap", "fault", "arbitration"];

const chromium = findChromium();

Deno.test({
  name: "dashboard: on the demo",
  ignore: chromium === null,
  fn: async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "hyperswap_dashboard_" });
    try {
      await using service = await RunningService.start(FROM_SOURCE, { command: "demo", folder });
      await inBrowser(chromium ?? "", async (open) => {
        await t.step("figures equal /api/stats", () => figuresEqualStats(service, open));
        await t.step("a yield by click frees the card and appears in the timeline", () => yieldsByClick(service, open));
        await t.step("a purge of a working ComfyUI is refused with a hint", () => purgeIsRefused(service, open));
        await t.step("light and narrow: legible, nothing sticks out", () => lightAndNarrow(service, open));
        await t.step("a picture of it is small enough for the README", () => takePicture(service, open));
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

async function figuresEqualStats(service: RunningService, open: Open): Promise<void> {
  const { page, complaints } = await open(service.url);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByText("SIMULATED", { exact: true }).waitFor();
  let [shown, expected] = [await readShown(page), expectedOf(await statsOf(service))];
  // Page and question see different seconds now and then: they must agree in one of them.
  for (let second = 0; second < 20 && JSON.stringify(shown) !== JSON.stringify(expected); second += 1) {
    const stats = await statsOf(service);
    [shown, expected] = [await readShown(page), expectedOf(stats)];
  }
  assert.deepEqual(shown, expected);
  assert.deepEqual(complaints, []);
  await page.context().close();
}

async function statsOf(service: RunningService): Promise<Stats> {
  // The service checks what it sends by the schema of which Stats is the type.
  return await service.get("/api/stats") as unknown as Stats;
}

interface Shown {
  readonly used: string;
  readonly buckets: readonly string[];
  readonly temperature: string;
  readonly models: readonly string[];
  readonly pids: readonly string[];
  readonly events: number;
}

function expectedOf({ gpu, ollama, history }: Stats): Shown {
  // As parts/gib.tsx: what would round to 0.0 GiB is shown in MiB.
  const isTiny = (gb: number) => gb > 0 && gb < 0.05;
  const gib = (gb: number | null) => gb === null ? "–" : isTiny(gb) ? (gb * 1024).toFixed(0) : gb.toFixed(1);
  const { breakdown } = gpu;
  return {
    used: gib(gpu.vram_used_gb),
    buckets: [
      breakdown.unaccounted_gb,
      breakdown.desktop_gb,
      breakdown.unmanaged_gb,
      breakdown.ollama_gb,
      breakdown.comfyui_gb,
      breakdown.free_gb,
    ].map(gib),
    temperature: gpu.temperature_c === null ? "–" : `${gpu.temperature_c}`,
    models: ollama.loaded_models.map(({ name }) => name),
    pids: breakdown.processes.map(({ pid }) => String(pid)).toSorted(),
    events: history.filter(({ kind }) => MOVES.includes(kind)).length,
  };
}

function readShown(page: Page): Promise<Shown> {
  return page.evaluate(() => {
    const figure = (element: Element | null | undefined) =>
      /–|[\d.]+/.exec(element?.querySelector(".value, .unknown")?.textContent ?? "")?.[0] ?? "missing";
    const each = (selector: string) => [...document.querySelectorAll(selector)];
    return {
      used: figure(document.querySelector(".hero")),
      buckets: each(".area-memory .panel-body > .legend .legend-item").map(figure),
      temperature: figure(each(".tile").find((tile) => tile.textContent?.includes("Temperature"))),
      models: each(".model-name").map((element) => element.textContent ?? ""),
      pids: each(".processes td:nth-child(2)").map((element) => element.textContent ?? "").sort(),
      events: each(".timeline .row").length,
    };
  });
}

async function yieldsByClick(service: RunningService, open: Open): Promise<void> {
  const { page, complaints } = await open(service.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  const models = ollama.locator(".model");
  const said: string[] = [];
  // Paused, the demo's own hand-offs can't be quicker than the click. A model that answers just then is busy: next turn.
  await setMode(service, "paused");
  for (let turn = 0; turn < 5 && !said.some((text) => /^Released \d+\.\d GiB in /.test(text)); turn += 1) {
    await models.first().waitFor({ timeout: TURN_MS });
    await ollama.getByRole("button", { name: "Yield VRAM" }).click();
    const answer = ollama.locator(".note:not(.note-info), .note-info:has(button)");
    await answer.waitFor({ timeout: TURN_MS });
    const text = await answer.innerText();
    said.push(text);
    // It unloads when it has answered, or is gone and the page a moment behind: the next turn is another load's.
    if (/^Released /.test(text)) continue;
    await models.first().waitFor({ state: "hidden", timeout: 20_000 }).catch(() => said.push("(it stayed)"));
  }
  await setMode(service, "auto");
  assert.match(said.at(-1) ?? "", /^Released \d+\.\d GiB in [\d.]+ m?s, confirmed by NVML/, said.join("\n"));
  const row = page.locator(".timeline .row", { hasText: "free VRAM" }).first();
  for (const text of [/Yield/, /released/, /GiB/, /ms/]) await row.getByText(text).first().waitFor();
  assert.deepEqual(complaints, []);
  await page.context().close();
}

async function setMode(service: RunningService, mode: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${service.url}/api/arbitration`, {
    method: "POST",
    headers,
    body: JSON.stringify({ mode }),
  });
  assert.equal(response.status, 200, await response.text());
}

async function purgeIsRefused(service: RunningService, open: Open): Promise<void> {
  const { page } = await open(service.url);
  const comfy = page.getByRole("region", { name: "ComfyUI" });
  await comfy.getByText("Executing", { exact: true }).waitFor({ timeout: TURN_MS });
  await comfy.getByRole("button", { name: "Purge VRAM" }).click();
  const note = comfy.locator(".note-bad");
  await note.locator(".note-title").waitFor();
  assert.notEqual((await note.locator(".note-detail").textContent())?.trim() ?? "", "", "a refusal without a hint");
  await page.context().close();
}

async function lightAndNarrow(service: RunningService, open: Open): Promise<void> {
  const { page, complaints } = await open(service.url, { colorScheme: "light", viewport: { width: 390, height: 844 } });
  await page.getByText("Live", { exact: true }).waitFor();
  assert.deepEqual(await sidewaysOverflow(page), []);
  assert.deepEqual(await lowContrast(page), []);
  assert.deepEqual(complaints, []);
  await page.context().close();
}

async function takePicture(service: RunningService, open: Open): Promise<void> {
  const { page, complaints } = await open(service.url, { colorScheme: "dark" });
  await page.getByText("Live", { exact: true }).waitFor();
  const isKept = Deno.args.includes("--picture");
  if (isKept) await tellStory(page);
  const png = await page.screenshot();
  assert.ok(png.byteLength < PICTURE_LIMIT_BYTES, `the picture takes ${png.byteLength} bytes`);
  if (isKept) await Deno.writeFile(PICTURE, png);
  assert.deepEqual(complaints, []);
}

/** Lets the chart fill, then switches a model in by hand, so that a swap stands among the hand-offs. */
async function tellStory(page: Page): Promise<void> {
  await page.waitForTimeout(STORY_MS);
  const loaded = page.getByText(/ loaded in .* from RAM/);
  for (let turn = 0; turn < 20 && await loaded.count() === 0; turn += 1) {
    await page.getByText(/^Idle for [1-4] s$/).waitFor({ timeout: TURN_MS });
    await page.getByRole("button", { name: "Switch" }).click();
    await page.locator(".note-title", { hasText: "Switching" }).waitFor({ state: "detached", timeout: TURN_MS });
  }
  await page.locator(".timeline .row", { hasText: "Swap" }).first().waitFor();
  await page.getByRole("button", { name: "Dismiss this message" }).click();
  await page.waitForTimeout(1_500);
}
