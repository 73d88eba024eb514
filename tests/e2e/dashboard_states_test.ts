/** What the dashboard shows of states that a running demo can't be asked for: unknown figures, servers that are gone. */
import assert from "node:assert/strict";
import { viewOverclock } from "../../lib/operations/tuning_view.ts";
import { fakeCard } from "../operations/fake_card.ts";
import { GPU } from "../operations/fake_values.ts";
import { cacheNamesScene } from "./dashboard_cache.ts";
import { gateScene } from "./dashboard_gate.ts";
import { type Play, playScenes } from "./dashboard_scenes.ts";
import { sampleStats } from "./dashboard_sample.ts";

const scenes: Record<string, Play> = {};

scenes["figures are those of /api/stats, and move with the stream"] = async (fake, open) => {
  const { page, complaints } = await open(fake.url);
  const vram = page.getByRole("region", { name: "VRAM", exact: true });
  await vram.getByText("14.2").first().waitFor();
  assert.match(
    await page.getByRole("img", { name: /^VRAM by holder:/ }).getAttribute("aria-label") ?? "",
    /Ollama 12\.0 GiB/,
  );
  await page.getByText("SIMULATED", { exact: true }).waitFor();
  const gpu = page.getByRole("region", { name: "GPU" });
  for (const text of ["34%", "58°C", "188", "42%", "P2", "At its power limit", "whisper-relay"]) {
    await gpu.getByText(text, { exact: false }).first().waitFor();
  }

  const next = sampleStats();
  fake.push({ ...next, timestamp: next.timestamp + 1, gpu: { ...next.gpu, temperature_c: 71, vram_used_gb: 3.3 } });
  await gpu.getByText("71°C").waitFor();
  await vram.getByText("3.3").first().waitFor();
  assert.deepEqual(complaints, []);
};

scenes["what isn't known is a dash with its reason, never a zero"] = async (fake, open) => {
  const base = fake.stats;
  fake.push({
    ...base,
    ram: null,
    sources: {
      ...base.sources,
      meminfo: { ...base.sources.meminfo, ok: false, last_error: "Cannot read meminfo: EACCES" },
    },
    gpu: { ...base.gpu, fan_pct: null, breakdown: { ...base.gpu.breakdown, ollama_gb: null, unaccounted_gb: null } },
  });
  const { page, complaints } = await open(fake.url);
  const fan = page.locator(".tile", { hasText: "Fan" });
  assert.equal(await fan.locator(".unknown [aria-hidden]").textContent(), "–");
  assert.match(await fan.locator(".unknown").getAttribute("title") ?? "", /doesn't report/);
  const legend = page.locator(".legend-item", { hasText: "Ollama" });
  assert.match(await legend.locator(".unknown").getAttribute("title") ?? "", /driver gives no figure/i);
  const cache = page.locator(".ram .legend-item", { hasText: "Page cache" });
  assert.equal(await cache.locator(".unknown").getAttribute("title"), "Cannot read meminfo: EACCES");
  assert.deepEqual(complaints, []);
};

scenes["host memory shows of which model files the page cache is, measured, and within it"] = async (fake, open) => {
  const base = fake.stats;
  assert.ok(base.ram);
  const { ram } = base;
  const { page, complaints } = await open(fake.url);
  const bar = page.getByRole("img", { name: /^Host memory:/ });
  const models = page.locator(".ram .legend-item", { hasText: "Of which model files" });
  assert.match(await models.locator(".unknown").getAttribute("title") ?? "", /not been measured/);
  assert.equal(await bar.getAttribute("aria-label"), "Host memory: Applications 11.4 GiB, Page cache 43.1 GiB");

  const measured = { model_files_total_gb: 62.5, model_residency_pct: 48 };
  fake.push({ ...base, ram: { ...ram, ...measured, model_files_gb: 30 } });
  await models.getByText("30.0").waitFor();
  assert.match(await models.getAttribute("title") ?? "", /48\.0 % of 62\.5 GiB/);
  assert.equal(
    await bar.getAttribute("aria-label"),
    "Host memory: Applications 11.4 GiB, Model files in the page cache 30.0 GiB, Rest of the page cache 13.1 GiB",
  );

  // The files' figure is seconds older: a cache that was dropped since must not make the bar longer than the memory.
  fake.push({ ...base, ram: { ...ram, ...measured, model_files_gb: 30, cached_gb: 2.5 } });
  await page.locator(".ram .legend-item", { hasText: "Page cache" }).getByText("2.5").waitFor();
  assert.equal(
    await bar.getAttribute("aria-label"),
    "Host memory: Applications 11.4 GiB, Model files in the page cache 2.5 GiB",
  );
  assert.deepEqual(complaints, []);
};

scenes["a server that is gone says why and what helps, and can't be asked"] = async (fake, open) => {
  const base = fake.stats;
  const reason = "Connection refused at 127.0.0.1:11434";
  fake.push({ ...base, ollama: { ...base.ollama, online: false, reason, loaded_models: [], installed_models: [] } });
  const { page } = await open(fake.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  await ollama.getByText("Offline", { exact: true }).waitFor();
  await ollama.getByText(reason).waitFor();
  await ollama.getByText(/systemctl start ollama/).waitFor();
  assert.equal(await ollama.getByRole("button", { name: "Yield VRAM" }).isDisabled(), true);
  assert.equal(await ollama.getByRole("button", { name: "Switch" }).isDisabled(), true);

  fake.push({ ...base, timestamp: base.timestamp + 1 });
  await ollama.getByText("Offline", { exact: true }).waitFor({ state: "detached" });
  assert.equal(await ollama.getByRole("button", { name: "Yield VRAM" }).isEnabled(), true);
};

scenes["the gate shows who is held, for how long, behind what, and what passed unheld"] = gateScene;
scenes["a model file's name stays in its place, whatever it holds"] = cacheNamesScene;

scenes["a card that can't be read says why and what helps"] = async (fake, open) => {
  const base = fake.stats;
  const nothing = { vram_used_gb: null, vram_free_gb: null, gpu_util_pct: null, temperature_c: null, power_w: null };
  const reason = "A driver call is overdue by 4 s";
  fake.push({
    ...base,
    gpu: { ...base.gpu, ...nothing, available: false, state: "wedged", reason, remedy: "Look at dmesg for Xid" },
  });
  const { page, complaints } = await open(fake.url);
  await page.getByRole("alert").getByText(reason).waitFor();
  await page.getByRole("alert").getByText("Look at dmesg for Xid").waitFor();
  const used = page.getByRole("region", { name: "VRAM", exact: true }).locator(".hero .unknown");
  assert.equal(await used.first().getAttribute("title"), reason);
  assert.deepEqual(complaints, []);
};

scenes["a lost connection shows the data's age and the reason, and heals by itself"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Live", { exact: true }).waitFor();
  const refusal = {
    error: { code: "unavailable", message: "The service is stopping", hint: "It comes back by itself" },
  };
  fake.replies.set("GET /api/version", { status: 503, body: refusal });
  fake.hangUp({ status: 503, body: refusal });
  const badge = page.locator(".badge", { hasText: "Reconnecting" });
  await badge.getByText(/data \d+ s old/).waitFor();
  await page.locator(".badge[title='The service is stopping. It comes back by itself']").waitFor();

  fake.hangUp();
  await page.getByText("Live", { exact: true }).waitFor({ timeout: 15_000 });
};

scenes["a late hand-off is told with its consequence, and opens the decisions around it"] = async (fake, open) => {
  const at = new Date(Date.parse(fake.stats.history[3]?.at ?? "") - 200).toISOString();
  const decision = {
    id: 7,
    at,
    event: "ComfyUI's queue holds 1",
    before: "lane free",
    after: "lane: yield",
    effects: ["ask Ollama to unload qwen3.6:27b"],
    reason: "ComfyUI has work and its need doesn't fit",
  };
  const old = { ...decision, id: 3, at: "2020-01-01T00:00:00.000Z", reason: "Long ago" };
  fake.replies.set("GET /api/why", { status: 200, body: { decisions: [decision, old] } });
  const { page, complaints } = await open(fake.url);
  const timeline = page.getByRole("region", { name: "Hand-offs, purges and swaps" });
  const late = timeline.locator("tr.row-late").first();
  for (const text of ["−174 ms", "231 ms", "1.3 ms", "11.9 GiB", "released", "qwen3.6:27b"]) {
    await late.getByText(text, { exact: true }).waitFor();
  }
  await timeline.getByText(/it may have loaded only part of its model/).waitFor();
  await timeline.getByText("RAM cache hit").waitFor();

  await late.getByRole("button", { name: /^Why: Yield/ }).press("Enter");
  const drawer = page.getByRole("dialog");
  await drawer.getByText(decision.reason).waitFor();
  await drawer.getByText("ask Ollama to unload qwen3.6:27b").waitFor();
  assert.equal(await drawer.getByText("Long ago").count(), 0);
  await page.keyboard.press("Escape");
  await drawer.waitFor({ state: "detached" });
  assert.deepEqual(complaints, []);
};

scenes["events that moved no memory are shown on request"] = async (fake, open) => {
  const { page } = await open(fake.url);
  const timeline = page.getByRole("region", { name: "Hand-offs, purges and swaps" });
  const rows = timeline.locator(".row");
  await rows.first().waitFor();
  assert.equal(await rows.count(), fake.stats.history.length - 1);
  await timeline.getByRole("button", { name: "1 other event" }).click();
  await timeline.getByText("Ollama works").waitFor();
  assert.equal(await rows.count(), fake.stats.history.length);
};

scenes["health opens only when something is wrong, and closes on Escape"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Healthy", { exact: true }).waitFor();
  assert.equal(await page.locator(".health-list").count(), 0);

  const check = {
    name: "comfyui_socket",
    state: "degraded",
    finding: "Closed 4 times",
    breaks: "Late starts",
    remedy: "See its log",
  };
  fake.replies.set("GET /api/health", { status: 200, body: { state: "degraded", checks: [check] } });
  await page.reload();
  const badge = page.getByRole("button", { name: "1 problem" });
  await badge.click();
  for (const text of ["ComfyUI socket", "Closed 4 times", "Late starts", "See its log"]) {
    await page.locator(".problem").getByText(text).waitFor();
  }
  await page.keyboard.press("Escape");
  await page.locator(".health-list").waitFor({ state: "hidden" });
};

scenes["names from outside are text, whatever they hold"] = async (fake, open) => {
  const base = fake.stats;
  const evil = `<img src=x onerror="document.title='taken'">`;
  const [model] = base.ollama.loaded_models;
  assert.ok(model);
  fake.push({ ...base, ollama: { ...base.ollama, loaded_models: [{ ...model, name: evil }] } });
  const { page, complaints } = await open(fake.url);
  await page.getByRole("region", { name: "Ollama" }).getByText(evil).waitFor();
  assert.equal(await page.title(), "HyperSwap");
  assert.deepEqual(complaints, []);
};

scenes["what wasn't known stays empty in the chart"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Live", { exact: true }).waitFor();
  const base = fake.stats;
  const { breakdown } = base.gpu;
  for (let second = 1; second <= 480; second += 1) {
    const ollama_gb = second <= 160 ? 11 : second <= 320 ? null : 5;
    const gpu = {
      ...base.gpu,
      breakdown: { ...breakdown, ollama_gb, unaccounted_gb: ollama_gb === null ? null : 0.3 },
    };
    fake.push({ ...base, timestamp: base.timestamp + second, gpu });
  }
  await page.locator(".chart[aria-label$='8 min of it']").waitFor();
  /** Painted pixels of the canvas's column at a share of the plot's width: gridlines and the page cache's are a few. */
  const painted = (share: number) =>
    page.evaluate((share) => {
      const canvas = document.querySelector<HTMLCanvasElement>(".chart canvas");
      const over = document.querySelector(".chart .u-over")?.getBoundingClientRect();
      const context = canvas?.getContext("2d");
      if (!canvas || !over || !context) throw new Error("no chart");
      const left = over.left - canvas.getBoundingClientRect().left;
      const { data } = context.getImageData(Math.round(left + over.width * share), 0, 1, canvas.height);
      return data.filter((byte, index) => index % 4 === 3 && byte > 60).length;
    }, share);
  // Ten minutes wide, the last eight filled: the gap lies between 0.47 and 0.73 of the width.
  assert.ok(await painted(0.3) > 100, "the first stretch is drawn");
  assert.ok(await painted(0.9) > 50, "the last stretch is drawn");
  assert.ok(await painted(0.6) < 20, `the unknown stretch holds ${await painted(0.6)} painted pixels`);
};

scenes["a refresh keeps the chart, and a burst of old frames is drawn once"] = async (fake, open) => {
  const { page, complaints } = await open(fake.url);
  const chart = page.locator(".chart");
  await chart.waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  await page.evaluate(() => {
    new PerformanceObserver((list) => {
      document.body.dataset["drawn"] = String(Number(document.body.dataset["drawn"] ?? 0) + list.getEntries().length);
    }).observe({ entryTypes: ["measure"] });
  });
  const base = fake.stats;
  for (let second = 1; second <= 300; second += 1) fake.push({ ...base, timestamp: base.timestamp + second });
  await page.locator(".chart[aria-label$='5 min of it']").waitFor();
  const drawn = await page.evaluate(() => Number(document.body.dataset["drawn"] ?? 0));
  assert.ok(drawn > 0 && drawn < 150, `${drawn} renderings of 300 frames`);

  await page.reload();
  await page.locator(".chart[aria-label$='5 min of it']").waitFor();
  assert.deepEqual(complaints, []);
};

scenes["levers are set on trial, and profiles saved and deleted, as the forms say"] = async (fake, open) => {
  const card = fakeCard(() => {});
  const quiet = { kind: "save", name: "quiet", values: { power_limit_w: 250 }, confirmMs: null } as const;
  await card.tune(quiet, new AbortController().signal);
  fake.replies.set("GET /api/overclock", { status: 200, body: viewOverclock(card.tuning(), GPU) });
  const done = (message: string) => ({ status: 200, body: { message, levers: [] } });
  fake.replies.set("POST /api/overclock/lever", done("It is set"));
  fake.replies.set("POST /api/overclock/profile", done("It is saved"));
  fake.replies.set("DELETE /api/overclock/profile/quiet", done("It is deleted"));
  const { page, complaints } = await open(fake.url);
  const tuning = page.getByRole("region", { name: "Tuning" });
  await tuning.getByRole("combobox", { name: /^Lever/ }).selectOption("power_limit_w");
  await tuning.getByLabel("Value, 150 to 370 W").fill("300");
  await tuning.getByRole("button", { name: "Set", exact: true }).click();
  await tuning.getByText("It is set").waitFor();
  await tuning.getByText("Save or delete a profile").click();
  await tuning.getByLabel("Name", { exact: true }).fill("fast");
  await tuning.getByRole("textbox", { name: "core offset" }).fill("150");
  await tuning.getByLabel("On trial for, s").fill("60");
  await tuning.getByRole("button", { name: "Save", exact: true }).click();
  await tuning.getByText("It is saved").waitFor();
  await tuning.getByRole("button", { name: "Delete quiet" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await tuning.getByText("It is deleted").waitFor();
  const changes = fake.asked.filter(({ route }) => !route.startsWith("GET"));
  assert.deepEqual(changes, [
    { route: "POST /api/overclock/lever", body: { lever: "power_limit_w", value: "300", confirm_within_s: 30 } },
    { route: "POST /api/overclock/profile", body: { name: "fast", core_offset_mhz: "150", confirm_within_s: 60 } },
    { route: "DELETE /api/overclock/profile/quiet", body: null },
  ]);
  assert.deepEqual(complaints, []);
};

playScenes("dashboard: what it shows", scenes);
