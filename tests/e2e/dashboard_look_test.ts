/** Legible and whole at every width, in both themes, by keyboard and within the content policy. */
import assert from "node:assert/strict";
import { lowContrast, sidewaysOverflow } from "./dashboard_browser.ts";
import { type Play, playScenes } from "./dashboard_scenes.ts";

const scenes: Record<string, Play> = {};

for (const colorScheme of ["dark", "light"] as const) {
  scenes[`${colorScheme}: every text stands out from what is behind it`] = async (fake, open) => {
    const base = fake.stats;
    const check = { name: "nvml", state: "broken", finding: "Not there", breaks: "All", remedy: "Install it" };
    fake.replies.set("GET /api/health", { status: 200, body: { state: "broken", checks: [check] } });
    // As many kinds of text at once as there are: executing, spilled, offline, warnings, a figure in every bucket.
    const wide = { ollama_gb: 4, comfyui_gb: 3, desktop_gb: 2.5, unmanaged_gb: 2.5, unaccounted_gb: 0.5, free_gb: 3 };
    const [model] = base.ollama.loaded_models;
    assert.ok(model);
    fake.push({
      ...base,
      ollama: {
        ...base.ollama,
        online: false,
        reason: "Connection refused",
        loaded_models: [{ ...model, spilled: true }],
      },
      comfyui: { ...base.comfyui, executing: true, queue_remaining: 2, progress: { value: 7, max: 20 } },
      arbitration: { ...base.arbitration, mode: "observe" },
      gpu: { ...base.gpu, breakdown: { ...base.gpu.breakdown, ...wide } },
    });
    const { page, complaints } = await open(fake.url, { colorScheme });
    await page.getByRole("button", { name: "1 problem" }).click();
    await page.getByText("step 7 of 20").waitFor();
    assert.deepEqual(await lowContrast(page), []);
    assert.deepEqual(complaints, []);
  };
}

scenes["nothing sticks out sideways from 390 to 2560 px"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Live", { exact: true }).waitFor();
  for (const width of [390, 720, 900, 1180, 1600, 1960, 2560]) {
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await sidewaysOverflow(page), [], `at ${width} px`);
    const outside = await page.evaluate(() =>
      [...document.querySelectorAll(".panel .button")]
        .filter((button) => {
          const right = button.closest(".panel")?.getBoundingClientRect().right ?? 0;
          return button.getBoundingClientRect().right > right;
        })
        .map(({ textContent }) => textContent)
    );
    assert.deepEqual(outside, [], `out of their panel at ${width} px`);
  }
};

scenes["everything that can be pressed can be reached by Tab, and shows that it was"] = async (fake, open) => {
  const { page } = await open(fake.url);
  await page.getByText("Live", { exact: true }).waitFor();
  const reached = new Set<string>();
  for (let press = 0; press < 30; press += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body) return null;
      const hasRing = getComputedStyle(element).outlineStyle !== "none";
      return { name: element.getAttribute("aria-label") ?? element.textContent ?? "", hasRing };
    });
    if (focused === null) break;
    assert.equal(focused.hasRing, true, `no ring on ${focused.name}`);
    reached.add(focused.name.trim());
  }
  for (const name of ["Skip to the instruments", "Auto", "Observe", "Paused", "Switch", "Yield VRAM", "Purge VRAM"]) {
    assert.equal(reached.has(name), true, `${name} was not reached; reached: ${[...reached].join(", ")}`);
  }
};

playScenes("dashboard: how it looks", scenes);
