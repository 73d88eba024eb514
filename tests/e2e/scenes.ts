/** What HyperSwap must do as a process, however it was built: the same scenes from source and with the binary. */
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { openBox } from "../../lib/lab/box.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { freePort, type Program, RunningService, runToEnd, socketIn } from "./running_service.ts";

export interface Scene {
  readonly name: string;
  play(program: Program, folder: string): Promise<void>;
}

/** Runs a scene in a folder of its own. */
export async function play(scene: Scene, program: Program): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap_e2e_" });
  try {
    await scene.play(program, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const demoIsServed: Scene = {
  name: "demo serves the simulated box on every door and ends cleanly",
  async play(program, folder) {
    await using service = await RunningService.start(program, { command: "demo", folder });
    const stats = await service.until("/api/stats", ({ gpu }) => field(gpu, "available") === true);
    assert.equal(stats["simulated"], true);
    assert.equal(typeof stats["simulation"], "string");
    assert.ok(Number(field(stats["gpu"], "vram_total_gb")) > 0);

    await pageIsServed(service);
    await toolsAreListed(program, folder);
    const status = await runToEnd(program, ["status", "--json", "--socket", socketIn(folder)]);
    assert.equal(status.code, 0, status.stderr);
    assert.equal(JSON.parse(status.stdout).simulated, true);
    const exported = await runToEnd(program, ["export", "events", "--socket", socketIn(folder)]);
    assert.equal(exported.code, 0, exported.stderr);
    assert.ok(Array.isArray(JSON.parse(exported.stdout)), exported.stdout);

    await endsCleanly(service);
  },
};

const nothingIsThere: Scene = {
  name: "serve with no GPU, no Ollama and no ComfyUI says what is missing and what helps, and heals when they come",
  async play(program, folder) {
    const [ollamaPort, comfyPort] = [freePort(), freePort()];
    const flags = [
      ...["--nvml", "/nonexistent/libnvidia-ml.so.1"],
      ...["--ollama-url", `http://127.0.0.1:${ollamaPort}`, "--comfyui-url", `http://127.0.0.1:${comfyPort}`],
    ];
    await using service = await RunningService.start(program, { command: "serve", folder, flags });
    const stats = await service.until("/api/stats", ({ ollama }) => field(ollama, "online") === false);
    assert.equal(stats["simulated"], false);
    assert.equal(field(stats["gpu"], "available"), false);
    assert.equal(field(stats["gpu"], "vram_total_gb"), null);
    for (const tenant of ["ollama", "comfyui"]) assert.ok(text(field(stats[tenant], "reason")).length > 0, tenant);
    assert.ok(text(field(stats["gpu"], "remedy")).length > 0);
    await sameMemoryAsTheKernelSays(stats);

    const health = await runToEnd(program, ["health", "--json", "--socket", socketIn(folder)]);
    assert.equal(health.code, 11, `broken: there is no card\n${health.stderr}`);
    const checks = JSON.parse(health.stdout).checks as readonly Record<string, unknown>[]; // health's own wire form
    for (const name of ["nvml", "ollama", "comfyui"]) {
      const check = checks.find((one) => one["name"] === name);
      assert.ok(text(check?.["finding"]) && text(check?.["breaks"]) && text(check?.["remedy"]), name);
    }

    await Deno.mkdir(`${folder}/lab`);
    await using _servers = await openBox({ clock: systemClock(), dir: `${folder}/lab`, ollamaPort, comfyPort });
    const isOnline = (tenant: unknown) => field(tenant, "online") === true;
    const healed = await service.until("/api/stats", ({ ollama, comfyui }) => isOnline(ollama) && isOnline(comfyui));
    assert.ok(list(field(healed["ollama"], "installed_models")).length > 0);
    await endsCleanly(service);
  },
};

const historySurvives: Scene = {
  name: "kill -9 and restart: history is there",
  async play(program, folder) {
    const kept = await (async () => {
      await using service = await RunningService.start(program, { command: "demo", folder });
      await service.until("/api/stats", ({ ollama }) => list(field(ollama, "loaded_models")).length > 0, 60_000);
      await service.post("/api/free-vram", {});
      const { events } = await service.until("/api/history?kind=yield", (answer) => list(answer["events"]).length > 0);
      const ended = await service.end("SIGKILL");
      assert.equal(ended.signal, "SIGKILL");
      return list(events);
    })();
    await using service = await RunningService.start(program, { command: "demo", folder });
    const { events } = await service.get("/api/history?limit=1000");
    for (const event of kept) {
      const found = list(events).find((one) => field(one, "id") === field(event, "id"));
      // A margin or a late release may have been added since; what was there must still be there.
      assert.ok(found !== undefined, `event ${field(event, "id")} is gone`);
      for (const name of ["at", "kind", "outcome", "models"]) assert.deepEqual(field(found, name), field(event, name));
    }
  },
};

const oneOwner: Scene = {
  name: "a second service on the same state directory is told who owns it",
  async play(program, folder) {
    await using first = await RunningService.start(program, { command: "demo", folder });
    const owner = await first.pid();
    const second = await runToEnd(program, [
      "demo",
      ...["--host", "127.0.0.1", "--port", String(freePort())],
      ...["--state-dir", `${folder}/state`, "--socket", `${folder}/second.sock`],
    ]);
    assert.notEqual(second.code, 0, second.stdout);
    assert.match(second.stderr, new RegExp(`\\b${owner}\\b`), `the owner's pid ${owner} is not named`);
    assert.equal((await first.get("/api/version"))["pid"], owner, "the first one goes on");
  },
};

export const SCENES: readonly Scene[] = [demoIsServed, nothingIsThere, historySurvives, oneOwner];

async function pageIsServed(service: RunningService): Promise<void> {
  const page = await fetch(`${service.url}/`);
  const html = await page.text();
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  const script = /<script[^>]*\bsrc="([^"]+)"/.exec(html)?.[1];
  assert.ok(script !== undefined, "the page has no script");
  const answer = await fetch(new URL(script, page.url));
  assert.equal(answer.status, 200);
  assert.ok((await answer.text()).length > 10_000, "the dashboard's script is not all there");
}

/** As an MCP host does it: the program itself, started with `mcp`, over its stdin and stdout. */
async function toolsAreListed(program: Program, folder: string): Promise<void> {
  const client = new Client({ name: "hyperswap-e2e", version: "1" });
  await client.connect(
    new StdioClientTransport({
      command: program.path,
      args: [...program.args, "mcp", "--socket", socketIn(folder)],
      stderr: "ignore",
    }),
  );
  try {
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    for (const name of ["get_gpu_status", "soft_yield_ollama_vram", "switch_ollama_model"]) {
      assert.ok(names.includes(name), `${name} is not among ${names.join(", ")}`);
    }
  } finally {
    await client.close();
  }
}

async function sameMemoryAsTheKernelSays(stats: Record<string, unknown>): Promise<void> {
  const kib = Number(/^MemTotal:\s+(\d+) kB$/m.exec(await Deno.readTextFile("/proc/meminfo"))?.[1]);
  assert.equal(field(stats["ram"], "total_gb"), Math.round(kib / 1024 / 1024 * 1000) / 1000);
}

async function endsCleanly(service: RunningService): Promise<void> {
  const { code, signal, stderr } = await service.end("SIGTERM");
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr);
  await assert.rejects(fetch(service.url), "the port is still open");
  await assert.rejects(Deno.stat(socketIn(service.folder)), Deno.errors.NotFound, "the socket is still there");
}

/** A field of an answer; undefined where there is none. */
function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
