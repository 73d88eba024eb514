/** The compiled binary, started, driven and killed. Compiled here, so that it is never a stale one. */
import assert from "node:assert/strict";
import { CannotCompile, compileBinary } from "../tasks/compile.ts";
import { onPath } from "../tasks/tools.ts";
import { type Program, RunningService } from "./running_service.ts";
import { play, type Scene, SCENES } from "./scenes.ts";

const binary = await (async (): Promise<string | null> => {
  try {
    return await compileBinary();
  } catch (error) {
    if (!(error instanceof CannotCompile)) throw error;
    console.log(`The binary is not tested: ${error.message}`);
    return null;
  }
})();

const strace = await onPath("strace", "shows that the binary starts no process");
if ("reason" in strace) console.log(`Not shown that the binary starts no process: ${strace.reason}`);

for (const scene of SCENES) {
  Deno.test({
    name: `the binary: ${scene.name}`,
    ignore: binary === null,
    fn: () => play(scene, { path: binary ?? "", args: [] }),
  });
}

/** A session in which everything that could start a process is asked for, traced. */
const traced: Scene = {
  name: "strace shows one execve, its own",
  async play(program, folder) {
    const log = `${folder}/strace.txt`;
    const tracer: Program = {
      path: "path" in strace ? strace.path : "",
      args: ["-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none", "-o", log, program.path],
    };
    await using service = await RunningService.start(tracer, { command: "demo", folder });
    await service.until("/api/stats", ({ timestamp }) => typeof timestamp === "number");
    for (const path of ["/", "/api/health", "/api/gpu", "/api/memory", "/api/models", "/api/history"]) {
      const answer = await fetch(service.url + path);
      await answer.body?.cancel();
      assert.equal(answer.status, 200, path);
    }
    await service.post("/api/free-vram", {});
    await service.end("SIGTERM");
    const calls = (await Deno.readTextFile(log)).split("\n").filter((line) => line.includes("exec"));
    assert.equal(calls.length, 1, calls.join("\n"));
    assert.ok(calls[0]?.includes(program.path), calls[0]);
  },
};

Deno.test({
  name: `the binary: ${traced.name}`,
  ignore: binary === null || "reason" in strace,
  fn: () => play(traced, { path: binary ?? "", args: [] }),
});
