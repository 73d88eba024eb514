/** What is shipped for Prometheus and Grafana names only what /metrics really has. */
import assert from "node:assert/strict";
import { openMetrics } from "../../lib/show/metrics.ts";
import { fakeBox } from "../operations/fake_box.ts";

const FOLDER = new URL("../../systemd/", import.meta.url);
const ALERTS = new URL("prometheus-alerts.yml", FOLDER);
const DASHBOARD = new URL("grafana-dashboard.json", FOLDER);

async function promtool(args: readonly string[], input: string | null = null): Promise<string | null> {
  try {
    const child = new Deno.Command("promtool", { args: [...args], stdin: "piped", stdout: "piped", stderr: "piped" })
      .spawn();
    const writer = child.stdin.getWriter();
    if (input !== null) await writer.write(new TextEncoder().encode(input));
    await writer.close();
    const { success, stdout, stderr } = await child.output();
    const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assert.ok(success, said);
    return said;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log("skipped: promtool isn't installed (Debian's package prometheus has it)");
    return null;
  }
}

async function page(): Promise<string> {
  const metrics = openMetrics(fakeBox().services);
  const { text } = await metrics.page(null);
  metrics.close();
  return text;
}

Deno.test("alerts and dashboard ask only for metrics that are there", async () => {
  const known = new Set([...(await page()).matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
  for (const file of [ALERTS, DASHBOARD]) {
    const asked = Deno.readTextFileSync(file).matchAll(/hyperswap_\w+/g);
    const names = [...asked].map(([name]) => name.replace(/_bucket$/, ""));
    assert.ok(names.length > 4);
    for (const name of names) assert.ok(known.has(name), `${name} in ${file.pathname}`);
  }
});

Deno.test("the dashboard is JSON whose panels have their own ids and don't overlap", () => {
  const { panels } = JSON.parse(Deno.readTextFileSync(DASHBOARD));
  assert.equal(new Set(panels.map(({ id }: { id: number }) => id)).size, panels.length);
  const cells = new Set<string>();
  for (const { gridPos: { x, y, w, h }, title } of panels) {
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        assert.ok(!cells.has(`${column},${line}`) && column < 24, title);
        cells.add(`${column},${line}`);
      }
    }
  }
});

Deno.test("promtool takes the alert rules and the page", async () => {
  await promtool(["check", "rules", ALERTS.pathname]);
  await promtool(["check", "metrics"], await page());
});
