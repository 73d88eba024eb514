/** A service that reads its configuration again, on a machine whose environment names a proxy. */
import assert from "node:assert/strict";
import { FROM_SOURCE, type Program, RunningService, runToEnd } from "./running_service.ts";
import { tempFolder } from "../record/temp_folder.ts";

/** Keeps what it is asked for, and answers nobody. */
function proxy(): { readonly url: string; readonly asked: readonly string[]; close(): void } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const asked: string[] = [];
  const serve = async () => {
    for await (const connection of listener) {
      const bytes = new Uint8Array(1024);
      const count = await connection.read(bytes);
      asked.push(new TextDecoder().decode(bytes.subarray(0, count ?? 0)).split("\r\n")[0] ?? "");
      connection.close();
    }
  };
  void serve();
  return { url: `http://127.0.0.1:${listener.addr.port}`, asked, close: () => listener.close() };
}

/** The same program in an environment of its own. */
function behind(url: string): Program {
  const names = ["NO_PROXY", "no_proxy"].flatMap((name) => ["-u", name]);
  const set = ["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map((name) => `${name}=${url}`);
  return { path: "/usr/bin/env", args: [...names, ...set, FROM_SOURCE.path, ...FROM_SOURCE.args] };
}

Deno.test("SIGHUP takes over what can change and names the rest; no call to this machine goes through a proxy", async () => {
  using folder = tempFolder();
  const config = `${folder.path}/hyperswap.toml`;
  Deno.writeTextFileSync(config, '[arbitration]\nmode = "observe"\n');
  const outside = proxy();
  try {
    const program = behind(outside.url);
    await using service = await RunningService.start(program, {
      command: "demo",
      folder: folder.path,
      flags: ["--config", config],
    });
    const mode = async () => (await service.get("/api/arbitration"))["mode"];
    assert.equal(await mode(), "observe");
    // Both servers of the box are reached by fetch, ComfyUI by a WebSocket besides.
    await service.until(
      "/api/stats",
      ({ ollama, comfyui }) =>
        [ollama, comfyui].every((tenant) => Reflect.get(Object(tenant), "online") === true) &&
        Reflect.get(Object(comfyui), "socket") === "open",
    );
    const { code, stderr } = await runToEnd(program, ["gpu", "--json", "--port", new URL(service.url).port]);
    assert.equal(code, 0, stderr);
    // The runtime itself may look there for a newer version.
    const local = outside.asked.filter((line) => /127\.|localhost|\[::1\]/.test(line));
    assert.deepEqual(local, [], "loopback went through the proxy");

    Deno.writeTextFileSync(config, '[arbitration]\nmode = "auto"\nkeep = ["a:latest"]\n[gpu]\nindex = 1\n');
    Deno.kill(await service.pid(), "SIGHUP");
    const { keep } = await service.until("/api/arbitration", (view) => view["mode"] === "auto");
    assert.deepEqual(keep, ["a:latest"]);
    const told = /now in force: arbitration\.mode, arbitration\.keep; only after a restart: gpu\.index/;
    assert.match(service.said, told);

    Deno.writeTextFileSync(config, '[arbitration]\nmode = "of"\n');
    Deno.kill(await service.pid(), "SIGHUP");
    const { events } = await service.until("/api/history?kind=service", (answer) => Array.isArray(answer["events"]));
    assert.ok(JSON.stringify(events).includes("only after a restart: gpu.index"));
    assert.equal(await mode(), "auto", "a configuration that can't be used changed something");
    const { stderr: said } = await service.end("SIGTERM");
    assert.match(said, /the one before stays in force.*arbitration\.mode = \W*of\W/);
  } finally {
    outside.close();
  }
});
