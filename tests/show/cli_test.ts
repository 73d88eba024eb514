import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import type { TuneRequest } from "../../lib/model/tuning.ts";
import { operations } from "../../lib/operations/registry.ts";
import { ALL_SCOPES } from "../../lib/show/access.ts";
import { runCli } from "../../lib/show/cli.ts";
import type { CliParts } from "../../lib/show/cli.ts";
import type { CliAddress } from "../../lib/show/cli_commands.ts";
import { localInvoker } from "../../lib/show/invoker.ts";
import { fakeBox } from "../operations/fake_box.ts";
import type { FakeBox } from "../operations/fake_box.ts";
import { purgeResult, yieldResult } from "../operations/fake_values.ts";
import { ownCommands } from "./own_commands.ts";

interface Said {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly addresses: readonly CliAddress[];
  readonly delegated: readonly string[];
}

async function cli(
  line: string | readonly string[],
  options: { box?: FakeBox; isTerminal?: boolean; signal?: AbortSignal; isReadOnly?: boolean } = {},
): Promise<Said> {
  const { box = fakeBox(), isTerminal = false, signal = new AbortController().signal, isReadOnly = false } = options;
  let stdout = "";
  let stderr = "";
  const addresses: CliAddress[] = [];
  const delegated: string[] = [];
  const parts: CliParts = {
    version: "0.1.0",
    signal,
    report: box.report,
    output: { stdout: (text) => void (stdout += text), stderr: (text) => void (stderr += text), isTerminal },
    invoker(address) {
      addresses.push(address);
      return Promise.resolve(
        localInvoker({ services: () => box.services, scopes: ALL_SCOPES, report: box.report, isReadOnly }),
      );
    },
    commands: ownCommands((word) => (args) => {
      delegated.push([word, ...args].join(" "));
      return Promise.resolve(word === "demo" ? 3 : 0);
    }),
    serviceFlags: { "state-dir": "where the record is kept", "ollama-url": "Ollama's address" },
  };
  const argv = typeof line === "string" ? line.split(" ").filter((word) => word !== "") : line;
  return { exit: await runCli(argv, parts), stdout, stderr, addresses, delegated };
}

Deno.test("alone it is status, for people; with --json exactly one document", async () => {
  for (const line of ["", "status"]) {
    const said = await cli(line);
    assert.equal(said.exit, 0);
    assert.match(said.stdout, /VRAM +12\.50 of 16\.00 GiB used \(78 %\), 3\.50 GiB free/);
    assert.match(said.stdout, /whisper|unmanaged 0\.50/);
    assert.equal(said.stderr, "");
    assert.ok(!said.stdout.includes(String.fromCharCode(27)), "colour went to a pipe");
  }
  for (const line of ["--json", "status --json"]) {
    const said = await cli(line);
    assert.equal(said.stdout.trimEnd().split("\n").length, 1);
    assert.equal(JSON.parse(said.stdout).gpu.vram_total_gb, 16);
    assert.equal(said.stderr, "");
  }
});

Deno.test("every operation is a command, and every answer one document", async () => {
  const box = fakeBox();
  const run = box.runs.start("switch-model", () => Promise.resolve({}));
  const warm = box.runs.start("warm-all", () => Promise.resolve({}));
  const sweep = box.runs.start("autotune-sweep", () => Promise.resolve({}));
  const args: Readonly<Record<string, string>> = {
    "autotune-cancel": sweep.id,
    "end-runner": "4001 991",
    "warm-model": "qwen3:14b",
    plan: "qwen3:14b",
    "warm-cancel": warm.id,
    pin: "qwen3:14b",
    unpin: "qwen3:14b",
    "switch-model": "qwen3:14b",
    "request-vram": "2",
    "set-arbitration": "observe",
    run: run.id,
    "cancel-run": run.id,
    "analytics-timeseries": "--metric power_w",
    "set-fan": "auto",
    "apply-profile": "comfy",
    "save-profile": "quiet --power-limit-w 250",
    "delete-profile": "quiet",
    "set-lever": "power_limit_w 300",
    "autotune-sweep": "power_limit_w",
    "set-governor": "--reset",
  };
  // What a call uses up has to be there for the next one.
  const tune = (request: TuneRequest) => box.services.card.tune(request, new AbortController().signal);
  const before: Readonly<Record<string, () => Promise<unknown>>> = {
    "delete-profile": () => tune({ kind: "save", name: "quiet", values: { fan: 50 }, confirmMs: null }),
    "confirm-change": () => tune({ kind: "lever", lever: "fan", value: 50, confirmMs: 60_000 }),
  };
  for (const { name, cli: door } of operations) {
    if (door === false) continue;
    const line = `${door.words.join(" ")} ${args[name] ?? ""}`;
    await before[name]?.();
    const json = await cli(`${line} --json`, { box });
    assert.equal(json.exit, name === "health" ? 10 : 0, `${line}: ${json.stderr}`);
    assert.ok(typeof JSON.parse(json.stdout) === "object", line);
    await before[name]?.();
    const human = await cli(line, { box, isTerminal: true });
    assert.equal(human.exit, json.exit, line);
    assert.ok(
      human.stdout.trim() !== "" && !human.stdout.includes("undefined") && !human.stdout.includes("[object"),
      `${line}: ${human.stdout}`,
    );
  }
  assert.deepEqual(box.defects, []);
});

Deno.test("arguments, flags, aliases and negations become parameters", async () => {
  const box = fakeBox();
  const lines = [
    "history --limit 5 --kind swap --no-durable",
    "yield a --no-confirm",
    "yield --model a",
    "yield --model-name=a",
    "switch qwen3:14b --keep-alive 1h --prompt hello",
    "arbitration set paused --until 2h --keep a --keep b,c",
    "request-vram --needed-gb 2.5",
  ];
  for (const line of lines) assert.equal((await cli(line, { box })).exit, 0, line);
  assert.deepEqual(box.asked, [
    'history {"limit":5,"kind":"swap","before":null,"durable":false}',
    'yieldVram {"models":["a"],"confirm":false,"operation":"free-vram"}',
    'yieldVram {"models":["a"],"confirm":true,"operation":"free-vram"}',
    'yieldVram {"models":["a"],"confirm":true,"operation":"free-vram"}',
    'switchModel {"model":"qwen3:14b","keepAlive":"1h","prompt":"hello","operation":"switch-model"}',
    'set {"mode":"paused","untilMs":1767276000000,"keep":["a","b","c"]}',
    'requestVram {"neededBytes":2684354560,"operation":"request-vram"}',
  ]);
  await cli(["arbitration", "set", "--keep", ""], { box });
  assert.equal(box.asked.at(-1), 'set {"mode":"paused","untilMs":1767276000000,"keep":[]}');
});

Deno.test("exit codes tell what happened", async () => {
  const box = fakeBox();
  const busy = () => Promise.reject(new Failure("busy", "Cannot purge ComfyUI: it executes", { hint: "Wait for it" }));
  const cases: [string, number, (() => void)?][] = [
    ["request-vram 999", 8],
    ["request-vram 3", 8, () => box.answers.fits = false],
    ["request-vram 3", 9, () => box.answers.fits = null],
    ["request-vram 3", 0, () => box.answers.fits = true],
    ["switch nope", 3],
    ["why 9", 3],
    ["runs get nothing", 3],
    ["request-vram -1", 2],
    ["request-vram", 2],
    ["history --limit abc", 2],
    ["history --lmit 3", 2],
    ["histroy", 2],
    ["status extra", 2],
    ["yield a --model b", 2],
    ["yield a --model-name b", 2],
    ["purge", 4, () => box.answers.purge = busy],
    ["purge", 9, () => box.answers.purge = () => Promise.resolve(purgeResult({ outcome: "timeout" }))],
    ["purge", 0, () => box.answers.purge = () => Promise.resolve(purgeResult({ outcome: "nothing_loaded" }))],
    ["yield", 9, () => box.answers.yieldVram = () => Promise.resolve(yieldResult({ outcome: "unconfirmed" }))],
    ["yield", 0, () => box.answers.yieldVram = () => Promise.resolve(yieldResult())],
    ["yield", 70, () => box.answers.yieldVram = () => Promise.reject(new Error("a defect"))],
    ["health", 10],
  ];
  for (const [line, exit, prepare] of cases) {
    prepare?.();
    for (const isJson of [false, true]) {
      const said = await cli(`${line}${isJson ? " --json" : ""}`, { box });
      assert.equal(said.exit, exit, `${line}: ${said.stderr}`);
      // The answer itself says that it doesn't fit.
      const isAnswer = exit === 0 || exit === 9 || exit === 10 || line === "request-vram 3";
      if (!isAnswer) {
        assert.match(said.stderr, /^error: [A-Z]/, line);
        assert.equal(isJson ? typeof JSON.parse(said.stdout).error.code : said.stdout, isJson ? "string" : "", line);
      }
    }
  }
  assert.equal((await cli("yield", { isReadOnly: true })).exit, 5);
});

Deno.test("errors name what was meant", async () => {
  assert.match((await cli("histroy")).stderr, /error: Unknown command "histroy"; did you mean "history"\?\nhint: /);
  assert.match((await cli("history --lmit 3")).stderr, /error: Unknown flag --lmit; did you mean "--limit"\?/);
  assert.match((await cli("history --kind swpa")).stderr, /did you mean "swap"\?\nhint: kind is one of/);
  assert.match((await cli("switch nope")).stderr, /error: Cannot find the model "nope"\nhint: hyperswap models/);
  assert.match((await cli("status extra")).stderr, /error: Unexpected argument "extra"/);
  assert.match((await cli("history --limit")).stderr, /error: .*--limit/);
});

Deno.test("where the service is comes from the flags", async () => {
  const said = await cli("gpu --host box.lan --port 9190 --socket /run/x.sock --token t");
  assert.deepEqual(said.addresses, [{ host: "box.lan", port: "9190", socket: "/run/x.sock", token: "t" }]);
  const byPort = [{ host: null, port: "9190", socket: null, token: null }];
  assert.deepEqual((await cli("--port 9190")).addresses, byPort);
  for (const line of ["--port 9190 gpu", "--json --port=9190 analytics swaps", "--port 9190 request-vram -- 3"]) {
    const moved = await cli(line);
    assert.deepEqual([moved.exit, moved.addresses], [0, byPort], `${line}: ${moved.stderr}`);
  }
  assert.deepEqual((await cli("--port 9190 demo --state-dir /x")).delegated, ["demo --state-dir /x --port 9190"]);
  assert.match((await cli("--port gpu 9190")).stderr, /Unexpected argument|Unknown command/);
});

Deno.test("serve, demo and config go to their owners with what follows them", async () => {
  const serve = await cli("serve --port 9190 --state-dir /x");
  assert.deepEqual([serve.exit, serve.delegated], [0, ["serve --port 9190 --state-dir /x"]]);
  assert.deepEqual([(await cli("demo")).exit, (await cli("config check --config /x")).delegated], [3, [
    "config check --config /x",
  ]]);
});

Deno.test("help and version need no service", async () => {
  const help = await cli("--help");
  assert.equal(help.exit, 0);
  for (const { cli: door } of operations) {
    if (door !== false) assert.ok(help.stdout.includes(door.words[0]!), door.words[0]);
  }
  for (const word of ["serve", "demo", "mcp", "config"]) assert.ok(help.stdout.includes(word), word);
  assert.match((await cli("yield --help")).stdout, /--model-name[\s\S]*--confirm\/--no-confirm/);
  assert.match((await cli("serve --help")).stdout, /--state-dir/);
  assert.match((await cli("arbitration --help")).stdout, /set/);
  const version = await cli("--version");
  assert.deepEqual([version.exit, version.stdout, version.addresses.length], [0, "0.1.0\n", 0]);
  for (const line of ["--version --json", "--json --version"]) {
    const said = await cli(line);
    assert.deepEqual([said.exit, said.stdout], [0, '{"version":"0.1.0"}\n'], line);
  }
});

Deno.test("colour, and progress on stderr, only for a terminal", async () => {
  const box = fakeBox();
  const { switchModel } = box.answers;
  box.answers.switchModel = async (call) => {
    await Promise.resolve();
    call.progress({ phase: "loading", done: 0.5, etaMs: null });
    return await switchModel(call);
  };
  const piped = await cli("switch qwen3:14b", { box });
  assert.equal(piped.stderr, "");
  const shown = await cli("switch qwen3:14b", { box, isTerminal: true });
  assert.match(shown.stderr, /50 % {2}loading/);
  assert.ok(shown.stdout.includes(String.fromCharCode(27)));
  assert.equal((await cli("switch qwen3:14b --json", { box, isTerminal: true })).stderr, "");
});

Deno.test("a simulated box is called that on stderr, and stdout stays one document", async () => {
  const said = await cli("gpu --json", { box: fakeBox({ simulation: "a 16 GB desktop" }) });
  assert.match(said.stderr, /^SIMULATED: .*a 16 GB desktop/);
  assert.equal(JSON.parse(said.stdout).device_name, "Test Card 16 GB");
});

Deno.test("what is locked is told to the megabyte, as the budget is set", async () => {
  const { stdout } = await cli("cache pin qwen3:14b");
  assert.match(stdout, /locked +9\.276 GB of 10\.000 GB allowed/);
  assert.match(stdout, /\n {2}9\.276 GB {2}\/usr/);
});

Deno.test("Ctrl-C cancels what was started", async () => {
  const box = fakeBox();
  const abort = new AbortController();
  box.answers.switchModel = ({ signal }) => {
    queueMicrotask(() => abort.abort());
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const said = await cli("switch qwen3:14b", { box, signal: abort.signal });
  assert.equal(said.exit, 130);
  assert.equal(box.runs.list()[0]?.state, "cancelled");
});

Deno.test("--watch shows each change until stopped", async () => {
  const box = fakeBox();
  const abort = new AbortController();
  const watching = cli("status --watch --json", { box, signal: abort.signal });
  for (let turn = 0; box.subscribers === 0 && turn < 1000; turn++) await Promise.resolve();
  assert.equal(box.subscribers, 1);
  box.show({ history: [] });
  abort.abort();
  const said = await watching;
  const lines = said.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ history }) => history.length), [2, 0]);
  assert.equal(said.exit, 0);
  const run = box.runs.start("switch-model", () => Promise.resolve({ done: true }));
  const run1 = await cli(`runs get ${run.id} --watch --json`, { box });
  assert.equal(JSON.parse(run1.stdout.trimEnd().split("\n").at(-1) ?? "").state, "done");
});

Deno.test("--watch is there for whatever only looks, and asks again only for what has changed", async () => {
  for (const operation of operations) {
    if (operation.cli === false) continue;
    const help = (await cli([...operation.cli.words, "--help"])).stdout;
    assert.equal(help.includes("--watch"), operation.access === "read" && !operation.isLong, operation.name);
  }
  const box = fakeBox();
  const abort = new AbortController();
  const watching = cli("history --limit 1 --watch --json", { box, signal: abort.signal });
  for (let turn = 0; box.asked.length < 1 && turn < 1000; turn++) await Promise.resolve();
  for (let second = 0; second < 3; second++) {
    box.show({});
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  }
  abort.abort();
  const said = await watching;
  assert.equal(said.exit, 0);
  assert.ok(box.asked.length > 2, "it looked once only");
  assert.equal(said.stdout.trimEnd().split("\n").length, 1, "what had not changed was shown again");
});
