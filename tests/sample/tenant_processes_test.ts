import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { type TenantHints, tenantProcesses, type TenantReading } from "../../lib/sample/tenant_processes.ts";
import { ARGS, BLOB, FakeProc } from "./fake_proc.ts";

const SERVER = 100;
const COMFY = 200;

function box(options: { ollamaPort?: number | null; comfyPort?: number | null } = {}) {
  const proc = new FakeProc();
  const clock = new LabClock();
  const { ollamaPort = 11434, comfyPort = 8188 } = options;
  const tenants = tenantProcesses({ proc, clock, ollamaPort, comfyPort });
  const read = (hints: Partial<TenantHints> = {}) =>
    tenants.read({ isOllamaOnline: true, isComfyOnline: true, comfyArgv: [], ...hints });
  return { proc, clock, read };
}

function withOllama(proc: FakeProc): void {
  proc.put(SERVER, { name: "ollama", args: ARGS.ollamaServe, exe: null, cgroup: "/system.slice/ollama.service" });
  proc.listen(11434, SERVER);
}

function runnerPids(reading: TenantReading): readonly number[] {
  return reading.runners.map(({ pid }) => pid);
}

Deno.test("the server is who owns the listening socket; its children with a model are runners", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner, cpuTicks: 42 });
  proc.put(102, { parentPid: SERVER, name: "llama-server", args: ARGS.llamaServer });
  proc.put(103, { parentPid: SERVER, name: "ollama", args: ARGS.mlx });
  proc.put(104, { parentPid: SERVER, name: "llama-server", args: ARGS.discovery });
  proc.put(105, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaServe });
  const reading = read();
  assert.deepEqual(reading.ollamaServer, { pid: SERVER, startTime: SERVER });
  assert.deepEqual(runnerPids(reading), [101, 102, 103]);
  assert.deepEqual(reading.runners[0], {
    pid: 101,
    startTime: 101,
    generation: "ollama-runner",
    blob: BLOB,
    modelName: null,
    port: 40001,
    isOrphan: false,
    cpuTicks: 42,
  });
  assert.equal(reading.runners[2]?.modelName, "qwen3:27b");
  assert.match(
    reading.roles.get(101)?.evidence ?? "",
    /^ollama-runner of blob sha256-ab.*child of the Ollama server \(pid 100\)$/,
  );
  assert.equal(reading.roles.get(104)?.bucket, "ollama", "a discovery child may hold a context, and is the server's");
  assert.equal(reading.roles.get(105)?.evidence, "descends from the Ollama server (pid 100)");
});

Deno.test("a child that still shows its parent's command line becomes a runner when it shows its own", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaServe });
  assert.deepEqual(runnerPids(read()), []);
  proc.put(101, { args: ARGS.ollamaRunner });
  assert.deepEqual(runnerPids(read()), [101]);
});

Deno.test("a dying runner without arguments is remembered; as a zombie it is gone", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  read();
  proc.put(101, { args: [], state: "D" });
  assert.equal(read().runners[0]?.blob, BLOB);
  proc.put(101, { state: "Z" });
  assert.deepEqual(runnerPids(read()), []);
});

Deno.test("a pid that was used again is another process", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  read();
  proc.put(101, { startTime: 999, parentPid: 1, name: "stress", args: [] });
  const reading = read();
  assert.deepEqual(runnerPids(reading), []);
  assert.equal(reading.roles.has(101), false);
});

Deno.test("a runner that outlived its server is an orphan, by memory and by its command line", () => {
  const { proc, clock, read } = box();
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  read();
  proc.gone(SERVER);
  proc.put(101, { parentPid: 1 });
  const orphaned = read({ isOllamaOnline: false });
  assert.deepEqual([orphaned.ollamaServer, runnerPids(orphaned), orphaned.runners[0]?.isOrphan], [null, [101], true]);
  assert.match(orphaned.roles.get(101)?.evidence ?? "", /orphaned: its server is gone/);
  const fresh = tenantProcesses({ proc, clock, ollamaPort: 11434, comfyPort: null });
  proc.put(150, { name: "ollama", args: ARGS.ollamaServe });
  proc.listen(11434, 150);
  const seen = fresh.read({ isOllamaOnline: true, isComfyOnline: false, comfyArgv: [] });
  assert.deepEqual([seen.ollamaServer?.pid, seen.runners.map(({ pid, isOrphan }) => [pid, isOrphan])], [150, [[
    101,
    true,
  ]]]);
});

Deno.test("an orphan may fall to a user's service manager instead of process 1", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(60, { name: "systemd", args: ["/lib/systemd/systemd", "--user"] });
  proc.put(101, { parentPid: 60, name: "llama-server", args: ARGS.llamaServer });
  assert.deepEqual(read().runners.map(({ isOrphan }) => isOrphan), [true]);
});

Deno.test("another Ollama's runners and a person's own llama-server are not ours", () => {
  const { proc, read } = box();
  withOllama(proc);
  proc.put(150, { name: "ollama", args: ARGS.ollamaServe });
  proc.put(151, { parentPid: 150, name: "ollama", args: ARGS.ollamaRunner });
  proc.put(160, { name: "bash" });
  proc.put(161, { parentPid: 160, name: "llama-server", args: ARGS.llamaServer });
  proc.put(162, { parentPid: 1, name: "llama-server", args: ["llama-server", "--model", "/home/ann/a.gguf"] });
  const reading = read();
  assert.deepEqual(runnerPids(reading), []);
  for (const pid of [150, 151, 161, 162]) assert.equal(reading.roles.has(pid), false);
});

Deno.test("ComfyUI is who owns the port, with all that descends from it", () => {
  const { proc, read } = box();
  proc.put(COMFY, { name: "pt_main_thread", args: ARGS.comfy });
  proc.put(201, { parentPid: COMFY, name: "python" });
  proc.put(202, { parentPid: 201, name: "python" });
  proc.put(203, { parentPid: 1, name: "python", args: ["python", "whisper.py"] });
  proc.listen(8188, COMFY);
  const reading = read();
  assert.deepEqual(reading.comfyServer, { pid: COMFY, startTime: COMFY });
  assert.deepEqual([...reading.roles].map(([pid, { bucket }]) => [pid, bucket]), [
    [COMFY, "comfy"],
    [201, "comfy"],
    [202, "comfy"],
  ]);
  assert.equal(reading.roles.get(COMFY)?.evidence, "owns the listening socket of port 8188");
});

Deno.test("of several owners of one socket the parent is meant, and never process 1", () => {
  const { proc, read } = box();
  proc.put(1, { parentPid: 0, name: "systemd" });
  proc.put(COMFY, { name: "python", args: ARGS.comfy });
  proc.put(201, { parentPid: COMFY, name: "python" });
  proc.listen(8188, 201, 1, COMFY);
  assert.equal(read().comfyServer?.pid, COMFY);
});

Deno.test("behind a container's proxy, the one that fits in another cgroup is meant, with its container", () => {
  const { proc, read } = box();
  const cgroup = "/system.slice/docker-0123.scope";
  proc.put(50, {
    name: "docker-proxy",
    args: ["/usr/bin/docker-proxy", "-host-port", "11434"],
    cgroup: "/system.slice/docker.service",
  });
  proc.put(110, { parentPid: 55, name: "ollama", args: ["/bin/ollama", "serve"], cgroup });
  proc.put(111, { parentPid: 110, name: "ollama", args: ARGS.ollamaRunner, cgroup });
  proc.put(112, { parentPid: 55, name: "nvtop", args: ["nvtop"], cgroup });
  proc.listen(11434, 50);
  const reading = read();
  assert.equal(reading.ollamaServer?.pid, 110);
  assert.deepEqual(runnerPids(reading), [111]);
  assert.equal(reading.roles.get(110)?.evidence, "Ollama in a container behind docker-proxy");
  assert.equal(reading.roles.get(112)?.evidence, "in the container of the Ollama server (pid 110)");
  assert.equal(reading.roles.has(50), false);
});

Deno.test("two containers that fit are none: a guess could count a stranger's memory", () => {
  const { proc, read } = box();
  proc.put(50, { name: "docker-proxy", cgroup: "/d" });
  for (const pid of [110, 120]) {
    proc.put(pid, { name: "ollama", args: ["/bin/ollama", "serve"], cgroup: `/docker-${pid}` });
  }
  proc.listen(11434, 50);
  assert.equal(read().ollamaServer, null);
});

Deno.test("where sockets can't be seen, arguments tell, once somebody answers there", () => {
  const { proc, read } = box();
  proc.put(SERVER, { name: "ollama", args: ARGS.ollamaServe });
  proc.put(COMFY, { name: "pt_main_thread", args: ARGS.comfy, cwd: null });
  proc.put(300, { name: "python", args: ["python", "main.py", "--port", "9000"], cwd: "/home/ann/web" });
  const offline = read({ isOllamaOnline: false, isComfyOnline: false });
  assert.deepEqual([offline.ollamaServer, offline.comfyServer], [null, null]);
  const argv = ["main.py", "--listen", "127.0.0.1", "--port", "8188"];
  const online = read({ comfyArgv: argv });
  assert.deepEqual([online.ollamaServer?.pid, online.comfyServer?.pid], [SERVER, COMFY]);
  assert.equal(online.roles.get(COMFY)?.evidence, "ComfyUI by its arguments");
  proc.put(310, { name: "python", args: ["/other/python", ...argv] });
  proc.gone(COMFY);
  proc.put(COMFY, { startTime: 999, name: "python", args: ARGS.comfy });
  assert.equal(read({ comfyArgv: argv }).comfyServer, null, "two that fit are none");
});

Deno.test("ComfyUI by its arguments needs more than a python and a main.py", () => {
  for (
    const [args, cwd, isIt] of [
      [["python", "main.py"], "/home/ann/ComfyUI", true],
      [["python", "/opt/ComfyUI/main.py"], null, true],
      [["python", "main.py", "--port", "8188"], null, true],
      [["python", "main.py"], "/home/ann/web", false],
      [["python", "main.py"], null, false],
      [["python", "server.py", "--port", "8188"], "/opt/ComfyUI", false],
      [["main.py"], "/opt/ComfyUI", false],
    ] as const
  ) {
    const { proc, read } = box();
    proc.put(COMFY, { name: "python", args, cwd });
    assert.equal(read().comfyServer !== null, isIt, `${args.join(" ")} in ${cwd}`);
  }
});

Deno.test("an upstream on another host has no processes here", () => {
  const { proc, read } = box({ ollamaPort: null });
  withOllama(proc);
  proc.put(101, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  proc.put(102, { parentPid: 1, name: "ollama", args: ARGS.ollamaRunner });
  const reading = read();
  assert.deepEqual([reading.ollamaServer, reading.runners.length, reading.roles.size], [null, 0, 0]);
});

Deno.test("descriptors are searched when there is reason to, not at each read", async () => {
  const { proc, clock, read } = box({ comfyPort: null });
  const searches = (work: () => void) => {
    const before = proc.searches;
    work();
    return proc.searches - before;
  };
  const offline = { isOllamaOnline: false };
  assert.equal(searches(() => [read(offline), read(offline), read(offline)]), 1, "none is there");
  assert.equal(searches(() => [read(), read(), read()]), 1, "somebody answers, whose process can't be seen");
  withOllama(proc);
  await clock.advance(5_000);
  assert.equal(searches(() => assert.equal(read().ollamaServer?.pid, SERVER)), 1);
  await clock.advance(29_000);
  assert.equal(searches(() => read()), 0, "the owner is there");
  proc.gone(SERVER);
  proc.put(150, { name: "ollama", args: ARGS.ollamaServe });
  proc.listen(11434, 150);
  assert.equal(searches(() => assert.equal(read().ollamaServer?.pid, 150)), 1);
  proc.put(160, { name: "ollama", args: ARGS.ollamaServe });
  proc.listen(11434, 160);
  await clock.advance(30_000);
  assert.equal(read().ollamaServer?.pid, 160, "the port has changed hands");
});
