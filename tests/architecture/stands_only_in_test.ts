import assert from "node:assert/strict";
import { forbiddenUses } from "./stands_only_in.ts";

const TIME = "clocks, timers and randomness stand only in lib/system and lib/lab: take the Clock port";
const PROCESS = "the service starts no process, ever";
const IN_SIGHT = "a name that is put together at run time can't be checked";
const C = "no C function that starts a process, or looks one up by name, is bound";
const COLLECTED = "its signal may be collected while only a promise waits for it (Deno 2.4.2): take joinSignals";
const ENV = "the environment is read only by lib/config/environment.ts; take the configuration instead";
const CONSOLE = "console stands only in lib/system/log.ts and lib/show/cli: take the Log port";

/** Planted code, and what is said of it: name and reason. */
const PLANTED: readonly (readonly [path: string, source: string, name: string, reason: string])[] = [
  ["lib/act/yield.ts", `new Deno.Command("ollama");`, "Deno.Command", PROCESS],
  ["lib/act/yield.ts", `new Deno\n  .Command("ollama");`, "Deno .Command", PROCESS],
  ["lib/act/yield.ts", `new Deno./* no */Command("ollama");`, "Deno. Command", PROCESS],
  ["lib/act/yield.ts", "`${new Deno.Command(`a`)}`", "Deno.Command", PROCESS],
  ["lib/act/end_runner.ts", `Deno.kill(4711, "SIGKILL");`, "Deno.kill", PROCESS],
  ["lib/lab/ollama.ts", `Deno.spawnAndWait("ls");`, "Deno.spawnAndWait", PROCESS],
  ["main.ts", `import { spawn } from "node:child_process";`, "node:child_process", PROCESS],
  ["main.ts", `await import("child_process");`, "child_process", PROCESS],
  ["lib/app.ts", `process.kill(1, 9);`, "process.kill", PROCESS],
  ["lib/app.ts", `process.getBuiltinModule(name);`, "getBuiltinModule", IN_SIGHT],
  ["lib/app.ts", `const { Command } = Deno;`, "Deno", IN_SIGHT],
  ["lib/app.ts", `Deno["Com" + "mand"];`, "Deno", IN_SIGHT],
  ["lib/app.ts", `globalThis["Deno"];`, "globalThis", IN_SIGHT],
  ["lib/app.ts", `De\\u006eo.Command;`, "\\", IN_SIGHT],
  ["lib/app.ts", `await import(name);`, "import", IN_SIGHT],
  ["lib/app.ts", `eval(text);`, "eval", IN_SIGHT],
  ["lib/app.ts", `import { env } from "node:process";`, `{ … } from "node:process"`, IN_SIGHT],
  ["ffi/libc_symbols.ts", `const S = { system: { parameters: ["buffer"], result: "i32" } };`, "system", C],
  ["ffi/libc_symbols.ts", `const S = { run: { name: "system", parameters: [], result: "i32" } };`, "system", C],
  ["ffi/libc_symbols.ts", `const S = { "posix_spawnp": {} };`, "posix_spawnp", C],
  ["ffi/libc_symbols.ts", `const S = { ["popen"]: {} };`, "popen", C],
  ["ffi/libc_symbols.ts", `const S = { execve: {} };`, "execve", C],
  ["ffi/libc_symbols.ts", `const S = { vfork: {} };`, "vfork", C],
  ["ffi/libc_symbols.ts", `const S = { clone3: {} };`, "clone3", C],
  ["ffi/libc_symbols.ts", `const S = { popen: {} };`, "popen", C],
  ["ffi/libc_symbols.ts", `const S = { dlsym: {} };`, "dlsym", C],
  ["ffi/libc.ts", `const SYS_EXECVE = number;`, "SYS_EXECVE", C],
  ["ffi/libc.ts", `symbols.syscall(59n, path);`, "syscall(59n", PROCESS],
  ["lib/decide/arbiter.ts", `const now = Date.now();`, "Date.now", TIME],
  ["lib/decide/arbiter.ts", `const now = new Date();`, "new Date", TIME],
  ["lib/decide/arbiter.ts", `const now = new Date;`, "new Date", TIME],
  ["lib/decide/arbiter.ts", `const now = Date();`, "Date", TIME],
  ["lib/decide/arbiter.ts", `const now = performance.now();`, "performance", TIME],
  ["lib/decide/arbiter.ts", `const now = globalThis.performance.now();`, "performance", TIME],
  ["lib/decide/arbiter.ts", `const now = Temporal.Now.instant();`, "Temporal.Now", TIME],
  ["lib/services/runs.ts", `setTimeout(end, 5);`, "setTimeout", TIME],
  ["lib/services/runs.ts", `const wait = globalThis.setInterval;`, "setInterval", TIME],
  ["lib/upstream/ollama.ts", `fetch(url, { signal: AbortSignal.timeout(5) });`, "AbortSignal.timeout", TIME],
  ["lib/show/rest.ts", `AbortSignal.any([one, other]);`, "AbortSignal.any", COLLECTED],
  ["lib/services/runs.ts", `const id = crypto.randomUUID();`, "crypto.randomUUID", TIME],
  ["lib/services/runs.ts", `import { randomBytes } from "node:crypto";`, "randomBytes", TIME],
  ["lib/sample/sampler.ts", `const jitter = Math.random();`, "Math.random", TIME],
  ["lib/sample/gpu.ts", `Deno.dlopen("libc.so.6", {});`, "Deno.dlopen", "libraries are opened only in ffi"],
  [
    "lib/sample/gpu.ts",
    `new Deno.UnsafeFnPointer(pointer, type);`,
    "Deno.UnsafeFnPointer",
    "C is called only from ffi",
  ],
  ["lib/config/schema.ts", `Deno.env.get("HOME");`, "Deno.env", ENV],
  ["lib/app.ts", `process.env.HOME;`, "process.env", ENV],
  ["lib/app.ts", `console.log("up");`, "console", CONSOLE],
  ["lib/show/rest.ts", `globalThis.console.error("down");`, "console", CONSOLE],
];

for (const [path, source, name, reason] of PLANTED) {
  Deno.test(`planted in ${path}: ${source.replaceAll("\n", " ")}`, () => {
    assert.deepEqual(forbiddenUses(path, `// a comment\n\n${source}`), [
      `forbidden use ${path}:3 ${name}: ${reason}`,
    ]);
  });
}

/** What must pass: where it is allowed, or where it only looks like it. */
const ALLOWED: readonly (readonly [path: string, source: string])[] = [
  ["ffi/nvml.ts", `Deno.dlopen(path, NVML_SYMBOLS); new Deno.UnsafeFnPointer(pointer, type);`],
  ["ffi/libc.ts", `PATTERN.exec(text); const system_id = 1; syscall(451n, fd); structuredClone(a);`],
  ["ffi/nvml_library.ts", `throw new NvmlError("dlopen", 12);`],
  ["lib/config/environment.ts", `Deno.env.get("HYPERSWAP_PORT"); process.env.HOME;`],
  ["lib/system/clock.ts", `Date.now(); performance.now(); setTimeout(f, 1); Math.random(); crypto.randomUUID();`],
  ["lib/lab/lab_clock.ts", `new Date(); AbortSignal.timeout(1);`],
  ["lib/system/log.ts", `console.error(line);`],
  ["lib/show/cli.ts", `console.log(text);`],
  ["lib/show/cli_format.ts", `console.log(text);`],
  ["lib/model/units.ts", `new Date(wallMs).toISOString(); Date.parse(text); const at: Date = value;`],
  ["lib/decide/arbiter.ts", `clock.setTimeout; const view = { performance: 1, console: 2 }; this.#performance;`],
  [
    "lib/decide/arbiter.ts",
    `// Deno.Command and Date.now()\n/* setTimeout */ const words = "Deno.Command Math.random";`,
  ],
  ["lib/decide/arbiter.ts", "const text = `Date.now() at ${at}`; const pattern = /Deno.Command|setTimeout/;"],
  ["lib/app.ts", `await import("./show/rest.ts"); import.meta.url; import process from "node:process";`],
];

for (const [path, source] of ALLOWED) {
  Deno.test(`allowed in ${path}: ${source.replaceAll("\n", " ")}`, () => {
    assert.deepEqual(forbiddenUses(path, source), []);
  });
}
