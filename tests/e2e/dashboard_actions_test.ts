/** What the dashboard asks for, and how it tells what came of it: outcomes by their figures, refusals with their hint. */
import assert from "node:assert/strict";
import { warmEndsScene } from "./dashboard_cache.ts";
import { type Play, playScenes } from "./dashboard_scenes.ts";

const scenes: Record<string, Play> = {};

const released = {
  outcome: "released",
  cause: "free-vram",
  request_ms: 1.4,
  confirm_ms: 214.2,
  freed_gb: 10.607,
  confirmed_by: "NVML: every runner gone, on two readings in a row",
  message: "Released",
  models: ["qwen3.6:27b"],
  pids: [48211],
  held: [],
};

scenes["a yield tells what the driver gave back, and in what time"] = async (fake, open) => {
  fake.replies.set("POST /api/free-vram", { status: 200, body: released });
  const { page, complaints } = await open(fake.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  await ollama.getByRole("button", { name: "Yield VRAM" }).click();
  const note = ollama.getByRole("status");
  await note.getByText("Released 10.6 GiB in 214 ms, confirmed by NVML").waitFor();
  await note.getByText("Every runner gone, on two readings in a row; the reply alone took 1.4 ms").waitFor();
  assert.deepEqual(fake.asked.filter(({ route }) => route === "POST /api/free-vram").map(({ body }) => body), [{}]);
  assert.deepEqual(complaints, []);
};

scenes["a yield that isn't confirmed never reads as one that is"] = async (fake, open) => {
  const message = "Ollama says nothing is resident, but the driver gives no bytes per process here";
  const unconfirmed = {
    ...released,
    outcome: "unconfirmed",
    confirm_ms: null,
    freed_gb: null,
    confirmed_by: null,
    message,
  };
  fake.replies.set("POST /api/free-vram", { status: 200, body: unconfirmed });
  const { page } = await open(fake.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  await ollama.getByRole("button", { name: "Yield VRAM" }).click();
  await ollama.locator(".note-warn").getByText(message).waitFor();
  assert.equal(await ollama.getByText(/Released/).count(), 0);
};

scenes["a refusal is shown in the service's words, with its hint, until dismissed"] = async (fake, open) => {
  const busy = { code: "busy", message: "ComfyUI is executing a prompt", hint: "Wait until its queue is empty" };
  fake.replies.set("POST /api/comfy-free", { status: 409, body: { error: busy } });
  const { page } = await open(fake.url);
  const comfy = page.getByRole("region", { name: "ComfyUI" });
  await comfy.getByRole("button", { name: "Purge VRAM" }).click();
  await comfy.locator(".note-bad").getByText(busy.message).waitFor();
  await comfy.getByText(busy.hint).waitFor();
  await comfy.getByRole("button", { name: "Dismiss this message" }).click();
  assert.equal(await comfy.getByText(busy.message).count(), 0);
};

scenes["a service that is gone is said to be, not waited for in silence"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.route("**/api/comfy-free", (route) => route.abort());
  const comfy = page.getByRole("region", { name: "ComfyUI" });
  await comfy.getByRole("button", { name: "Purge VRAM" }).click();
  await comfy.getByText("The service did not answer").waitFor();
  await comfy.getByText(/hyperswap serve/).waitFor();
};

scenes["a change of mode says its effect first, and asks only once it is confirmed"] = async (fake, open) => {
  const forbidden = {
    code: "forbidden",
    message: "Cannot set arbitration: operate is not granted",
    hint: "Set access.loopback",
  };
  fake.replies.set("POST /api/arbitration", { status: 403, body: { error: forbidden } });
  const { page } = await open(fake.url);
  await page.getByRole("button", { name: "Paused" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/does nothing by itself/).waitFor();
  await dialog.getByRole("button", { name: "Keep as it is" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(fake.asked.some(({ route }) => route === "POST /api/arbitration"), false);

  await page.getByRole("button", { name: "Paused" }).click();
  await dialog.getByRole("button", { name: "Set to paused" }).click();
  await page.locator(".mode").getByText(forbidden.message).waitFor();
  await page.locator(".mode").getByText(forbidden.hint).waitFor();
  assert.deepEqual(fake.asked.filter(({ route }) => route === "POST /api/arbitration").map(({ body }) => body), [{
    mode: "paused",
  }]);
  assert.equal(await page.getByRole("button", { name: "Auto", exact: true }).getAttribute("aria-pressed"), "true");
};

const run = {
  id: "r1",
  operation: "switch-model",
  state: "running" as const,
  phase: "loading gemma4:12b",
  done_pct: null,
  eta_ms: null,
  started_at: "2025-12-01T14:40:00.000Z",
  ended_at: null,
};

scenes["a switch is a run: followed, shown, and told by what it achieved"] = async (fake, open) => {
  fake.replies.set("POST /api/switch-model", { status: 200, body: { ...run, version: 1, result: null, error: null } });
  const { page, complaints } = await open(fake.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  await ollama.getByLabel("Switch to").selectOption("gemma4:12b");
  await ollama.getByLabel("Keep").selectOption("2h");
  await ollama.getByRole("button", { name: "Switch" }).click();
  await ollama.getByText("Switching to gemma4:12b").waitFor();
  assert.deepEqual(fake.asked.find(({ route }) => route === "POST /api/switch-model")?.body, {
    model: "gemma4:12b",
    keep_alive: "2h",
    wait: false,
  });
  fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [run] });
  await page.getByRole("region", { name: "Under way" }).getByText("loading gemma4:12b").waitFor();

  const result = {
    target_model: "gemma4:12b",
    load_duration_ms: 3122.4,
    class: "ram_hit",
    gb_per_s: 2.594,
    vram_gb: 8.3,
    spilled: false,
    verdict: "Loaded from RAM at the speed of the copy",
  };
  fake.replies.set("GET /api/runs/r1", {
    status: 200,
    body: { ...run, state: "done", version: 2, result, error: null },
  });
  fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [{ ...run, state: "done" }] });
  await ollama.getByText("gemma4:12b loaded in 3.12 s, 2.59 GB/s, from RAM, 8.3 GiB VRAM").waitFor();
  await ollama.getByText(result.verdict).waitFor();
  assert.deepEqual(complaints, []);
};

scenes["a benchmark is a run as well: asked for, shown under way, and told by its medians; misses stand beside it"] =
  async (
    fake,
    open,
  ) => {
    const bench = { ...run, id: "b1", operation: "benchmark", phase: "round trip 1 of 3: loading gemma4:12b" };
    fake.replies.set("POST /api/benchmark", { status: 200, body: { ...bench, version: 1, result: null, error: null } });
    const { page, complaints } = await open(fake.url);
    const panel = page.getByRole("region", { name: "Benchmark" });
    await panel.getByRole("row", { name: "qwen3:14b 4096 context" }).getByText("11.2").waitFor();
    assert.equal(await panel.locator("td.late").innerText(), "1");
    await panel.getByLabel("Between").selectOption("gemma4:12b");
    await panel.getByLabel("Round trips").fill("3");
    await panel.getByRole("button", { name: "Measure" }).click();
    await panel.getByText("Measuring: models are unloaded and loaded meanwhile").waitFor();
    assert.deepEqual(fake.asked.find(({ route }) => route === "POST /api/benchmark")?.body, {
      iterations: 3,
      models: ["gemma4:12b"],
      wait: false,
    });
    fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [bench] });
    await page.getByRole("region", { name: "Under way" }).getByText(bench.phase).waitFor();
    const spread = { ...{ n: 3, mean: 3_300, p50: 3_210, p95: null } };
    const summary = { to: "gemma4:12b", transition_ms: spread, load_ms: spread, tokens_per_sec: null, classes: {} };
    const result = {
      summaries: [summary],
      given_way: false,
      message: "gemma4:12b, unloaded and reloaded: median 3210 ms",
    };
    fake.replies.set("GET /api/runs/b1", {
      status: 200,
      body: { ...bench, state: "done", version: 2, result, error: null },
    });
    fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [{ ...bench, state: "done" }] });
    await panel.getByText(result.message).waitFor();
    const cells = await panel.getByRole("row", { name: "gemma4:12b" }).getByRole("cell").allInnerTexts();
    assert.deepEqual(cells, ["3", "3.30 s", "3.21 s", "–", "3.21 s", "–"]);
    assert.deepEqual(complaints, []);
  };

scenes["a switch that is refused while it runs says why, and a run can be cancelled"] = async (fake, open) => {
  fake.replies.set("POST /api/switch-model", { status: 200, body: { ...run, version: 1, result: null, error: null } });
  fake.replies.set("POST /api/runs/r1/cancel", { status: 200, body: { ...run, state: "cancelled" } });
  const { page } = await open(fake.url);
  const ollama = page.getByRole("region", { name: "Ollama" });
  await ollama.getByRole("button", { name: "Switch" }).click();
  fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [run] });
  await page.getByRole("region", { name: "Under way" }).getByRole("button", { name: "Cancel" }).click();

  const error = {
    code: "wont_fit",
    message: "Cannot fit gemma4:12b: 0.8 GiB are unmanaged",
    hint: "End whisper-relay",
  };
  fake.replies.set("GET /api/runs/r1", {
    status: 200,
    body: { ...run, state: "failed", version: 2, result: null, error },
  });
  fake.push({ ...fake.stats, timestamp: fake.stats.timestamp + 1, runs: [{ ...run, state: "failed" }] });
  await ollama.getByText(error.message).waitFor();
  await ollama.getByText(error.hint).waitFor();
  assert.equal(fake.asked.some(({ route }) => route === "POST /api/runs/r1/cancel"), true);
};

scenes["a warm that was asked for here is told by how it ended"] = warmEndsScene;

playScenes("dashboard: what it asks for", scenes);
