/** The past on the dashboard: any span by a click or a drag, statistics with what they rest on, and no service to ask. */
import assert from "node:assert/strict";
import { type Play, playScenes } from "./dashboard_scenes.ts";

const scenes: Record<string, Play> = {};

/** Queries of the calls for a series, oldest first. */
function watchSeries(page: Awaited<ReturnType<Parameters<Play>[1]>>["page"]): URLSearchParams[] {
  const asked: URLSearchParams[] = [];
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.pathname === "/api/analytics/timeseries") asked.push(url.searchParams);
  });
  return asked;
}

scenes["figures and span are picked, a drag zooms in, and the way back is there"] = async (fake, open) => {
  const { page, complaints } = await open(fake.url);
  await page.getByText("1 min 0 s a point").waitFor();
  const asked = watchSeries(page);
  const next = async (act: () => Promise<unknown>) => {
    const before = asked.length;
    const answered = page.waitForResponse((response) => response.url().includes("/api/analytics/timeseries"));
    await act();
    await answered;
    assert.ok(asked.length > before);
    return asked.at(-1) ?? new URLSearchParams();
  };
  const week = await next(() => page.getByRole("button", { name: "7 d", exact: true }).click());
  assert.equal(week.get("from"), "604800s");
  assert.equal(week.get("to"), null);
  const power = await next(() => page.getByRole("button", { name: "Power", exact: true }).click());
  assert.equal(power.get("metric"), "power_w,power_limit_w");
  await page.locator(".past-chart").scrollIntoViewIfNeeded();
  const chart = await page.locator(".past-chart").boundingBox();
  assert.ok(chart !== null);
  const zoomed = await next(async () => {
    await page.mouse.move(chart.x + chart.width / 2, chart.y + 80);
    await page.mouse.down();
    await page.mouse.move(chart.x + chart.width / 2 + 200, chart.y + 80, { steps: 4 });
    await page.mouse.up();
  });
  const [from, to] = [Date.parse(zoomed.get("from") ?? ""), Date.parse(zoomed.get("to") ?? "")];
  assert.ok(from < to && to - from < 3_600_000, `${from} to ${to}`);
  const back = await next(() => page.getByRole("button", { name: "Zoom out" }).click());
  assert.equal(back.get("from"), "604800s");
  assert.deepEqual(complaints, []);
};

scenes["statistics show n, leave out what too few values can't tell, and say whether profiles differ"] = async (
  fake,
  open,
) => {
  const { page } = await open(fake.url);
  const rowOf = async (name: string) =>
    (await page.getByRole("row", { name }).innerText()).split(/\s*\t\s*/).map((cell) => cell.trim());
  await page.getByText("that stands out from noise").waitFor();
  assert.deepEqual(await rowOf("Yield until confirmed"), ["Yield until confirmed", "34", "412 ms", "536 ms", "–"]);
  assert.deepEqual((await rowOf("Purge until confirmed")).slice(1), ["9", "633 ms", "–", "–"]);
  assert.deepEqual((await rowOf("Margin of hand-offs")).slice(1), ["0", "–", "–", "–"]);
  assert.equal(await page.locator(".error-bars").count(), 2);
};

scenes["where nothing is kept, the page says so and goes on"] = async (fake, open) => {
  const message = "Cannot look back: nothing is kept on disk here";
  for (const what of ["timeseries", "swaps", "profiles"]) {
    fake.replies.set(`GET /api/analytics/${what}`, { status: 503, body: { error: { code: "unavailable", message } } });
  }
  const { page, complaints } = await open(fake.url);
  await page.getByText(message).first().waitFor();
  assert.equal(await page.getByText(message).count(), 2);
  assert.deepEqual(complaints, []);
};

playScenes("dashboard: the past", scenes);
