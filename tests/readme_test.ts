/** The README claims only what is there: tasks, commands, flags, settings, paths, exit codes, files. */
import assert from "node:assert/strict";
import { configKeys, ENV_ALIASES, FLAG_KEYS } from "../lib/config/keys.ts";
import { loadConfig } from "../lib/config/load.ts";
import { EXIT_NOT_RELEASED, FAILURES } from "../lib/model/failure.ts";
import { VERSION } from "../lib/model/version.ts";
import { feeds, operations } from "../lib/operations/registry.ts";
import { refused } from "../lib/operations/outcome.ts";
import { extraCommands } from "../lib/show/cli_extras.ts";
import { type CliParts, runCli } from "../lib/show/cli.ts";
import { ownCommands } from "./show/own_commands.ts";

const ROOT = new URL("../", import.meta.url);
const read = (path: string) => Deno.readTextFile(new URL(path, ROOT));

const README = await read("README.md");
/** Everything set in code: fenced lines, and spans in the text. */
const FENCED = [...README.matchAll(/^```\w*\n([\s\S]*?)^```$/gm)].flatMap(([, body = ""]) => body.split("\n"));
const SPANS = [...README.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/`([^`\n]+)`/g)].map(([, span = ""]) => span);
const CODE = [...FENCED, ...SPANS].map((line) => line.replace(/\s+#.*$/, "").trim()).filter((line) => line !== "");

/** Every match of a pattern in the README's code, once. */
function claimed(pattern: RegExp): string[] {
  return [...new Set(CODE.flatMap((line) => [...line.matchAll(pattern)].map(([, name = ""]) => name)))].sort();
}

Deno.test("the README opens with the two commands", () => {
  const [first, second] = FENCED.map((line) => line.replace(/\s+#.*$/, ""));
  assert.equal(first, "npx -y deno@2.9.6 task demo");
  assert.equal(second, "npx -y deno@2.9.6 task test");
});

Deno.test("every task the README names exists, and CI runs the README's test command", async () => {
  const { tasks } = JSON.parse(await read("deno.json")) as { tasks: Record<string, unknown> }; // checked by its use
  const named = claimed(/\btask ([a-z]\w*)/g);
  assert.ok(named.length >= 4, named.join());
  assert.deepEqual(named.filter((name) => tasks[name] === undefined), []);
  assert.match(await read(".ci/run"), /^exec npx -y deno@2\.9\.6 task test$/m);
});

Deno.test("the version that every door tells is the project's", async () => {
  const { version } = JSON.parse(await read("deno.json")) as { version: string }; // compared with a string
  assert.equal(VERSION, version);
});

Deno.test("one version of Deno is named throughout", () => {
  assert.deepEqual(claimed(/\bdeno@([\w.]+)/g), ["2.9.6"]);
});

/** Commands that aren't operations. */
const EXTRAS = extraCommands({});
const OWNED: readonly string[] = EXTRAS.map(({ words }) => words[0]);

/** Parts of a command line that reaches no service: what can be parsed and is valid input gets as far as asking for one. */
function unreachable(said: string[]): CliParts {
  const owner = () => Promise.resolve(0);
  return {
    version: "0",
    output: { stdout: (text) => said.push(text), stderr: (text) => said.push(text), isTerminal: false },
    signal: new AbortController().signal,
    report: () => "",
    invoker: () =>
      Promise.resolve({
        where: "nowhere",
        invoke: (operation, input) => {
          const { success, error } = operation.input.safeParse(input);
          return Promise.resolve(
            success ? refused("unavailable", "as expected") : refused("invalid_input", `${error}`),
          );
        },
        follow: () => Promise.resolve(refused("unavailable", "as expected")),
        download: () => Promise.resolve(refused("unavailable", "as expected")),
        close() {},
      }),
    commands: ownCommands(() => owner),
    serviceFlags: {},
  };
}

const COMMANDS = [...new Set(CODE.filter((line) => /^hyperswap( [^…]*)?$/.test(line)))].map((line) =>
  line.split(/\s+/).slice(1)
);

for (const words of COMMANDS.filter(([first]) => first !== "mcp")) {
  Deno.test(`the README's "hyperswap ${words.join(" ")}" is a command with valid input`, async () => {
    const said: string[] = [];
    const exit = await runCli(words, unreachable(said));
    const isOwned = OWNED.includes(words[0] ?? "");
    assert.equal(exit, isOwned ? 0 : FAILURES.unavailable.exit, said.join(""));
  });
}

Deno.test("a command that isn't there would be noticed", async () => {
  assert.ok(COMMANDS.length >= 9, String(COMMANDS.length));
  for (const line of [["yeild"], ["request-vram", "much"], ["yield", "--confrim"], ["arbitration", "set", "off"]]) {
    assert.equal(await runCli(line, unreachable([])), FAILURES.invalid_input.exit, line.join(" "));
  }
});

Deno.test("the README's table of settings is the configuration's", () => {
  const rows = [...README.matchAll(/^\| `([a-z_.]+)` \| (?:`--([a-z-]+)`)? *\| (?:`([^`]+)`)? *\|/gm)];
  assert.ok(rows.length >= 10, String(rows.length));
  const keys = configKeys();
  for (const [, path = "", flag, fallback] of rows) {
    if (path === "needs") continue; // a table of names, not a key with a default
    const key = keys.find((one) => one.path === path);
    assert.ok(key !== undefined, `${path} is no key`);
    assert.equal(String(key.fallback), fallback ?? "", `the default of ${path}`);
    const own = Object.entries(FLAG_KEYS).find(([, target]) => target === path)?.[0];
    assert.equal(flag, own, `the flag of ${path}`);
  }
});

Deno.test("every flag and variable the README names is read", () => {
  const flags = new Set<string>([
    ...EXTRAS.flatMap((extra) => Object.keys(extra.flags)),
    ...operations.flatMap(({ parameters }) => parameters.map(({ name }) => name.replaceAll("_", "-"))),
    ...Object.keys(FLAG_KEYS),
    "config",
    "json",
    "help",
    "watch",
    "token",
    "version",
  ]);
  const own = CODE.filter((line) => /^(?:hyperswap |npx -y deno@|--)/.test(line)).join("\n");
  const named = [...own.matchAll(/(?:^|\s)--([a-z][\w-]*)/g)].map(([, flag = ""]) => flag);
  assert.ok(named.length >= 8, named.join());
  assert.deepEqual(named.filter((flag) => !flags.has(flag)), []);
  const variables = new Set([
    ...configKeys().map(({ env }) => env),
    ...Object.keys(ENV_ALIASES),
    "HYPERSWAP_CONFIG",
    "HYPERSWAP_TOKEN",
    "DENORT_BIN",
    // The runtime's own, and other programs'.
    "NO_COLOR",
    "HTTP_PROXY",
    // Read by the clients that are pointed at the gate.
    "OLLAMA_HOST",
    "OLLAMA_BASE_URL",
  ]);
  const set = claimed(/\b([A-Z]+_[A-Z_]+)\b/g).filter((name) => !name.startsWith("CAP_"));
  assert.ok(set.length >= 4, set.join());
  assert.deepEqual(set.filter((name) => !variables.has(name)), []);
});

Deno.test("the README's example configuration is accepted", () => {
  const toml = /^```toml\n([\s\S]*?)^```$/m.exec(README)?.[1] ?? "";
  const { config } = loadConfig({ flags: { config: "example.toml" }, env: {}, readFile: () => toml });
  assert.equal(config.comfyui.idle_purge_s, 120);
  assert.equal(config.access.tokens.length, 1);
});

Deno.test("every HTTP path the README names is routed", () => {
  const routes = [...operations, ...feeds].map(({ http }) => http.path);
  const named = claimed(/(\/api\/[\w/-]+)/g);
  assert.ok(named.length >= 3, named.join());
  assert.deepEqual(named.filter((path) => !routes.some((route) => route === path)), []);
});

Deno.test("every file the README links or shows is there", async () => {
  const shown = [...README.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map(([, path = ""]) => path);
  const links = [...shown, ...claimed(/(?<![/\w])(systemd\/[\w-]+\.\w+)/g)];
  assert.ok(links.length >= 3, links.join());
  const missing = await Promise.all(links.map(async (path) => {
    try {
      await Deno.stat(new URL(path, ROOT));
      return null;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return path;
      throw error;
    }
  }));
  assert.deepEqual(missing.filter((path) => path !== null), []);
});

Deno.test("the README's exit codes are those of the code", () => {
  const rows = [...README.matchAll(/^\| ([\d, ]+) \| \S/gm)].flatMap(([, codes = ""]) => codes.split(",").map(Number));
  const ofHealth = [10, 11];
  const all = [0, EXIT_NOT_RELEASED, ...ofHealth, ...Object.values(FAILURES).map(({ exit }) => exit)];
  assert.deepEqual(rows.sort((a, b) => a - b), [...new Set(all)].sort((a, b) => a - b));
});
