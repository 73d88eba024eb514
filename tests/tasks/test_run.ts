/**
 * `deno task test`: everything that must hold, step by step, ending in one plain line. `--quick` (`deno task ok`) is the
 * part for while you work: no browser, no second Deno, no binary.
 */
import { add, lastLine, NOTHING, type Tally } from "./junit.ts";
import { runStep, type Step } from "./step.ts";
import { chromium, denort, type Found, onPath, ROOT, SHIPPED_DENO, shippedDeno } from "./tools.ts";

const MINUTE_MS = 60_000;
const RULES = ["tests/architecture_test.ts", "tests/architecture", "tests/tasks", "tests/readme_test.ts"];
const E2E = "tests/e2e";
const BINARY = `${E2E}/binary_test.ts`;

/** What neither a unit nor a contract test is. */
const APART = [...RULES, E2E, "tests/bench", "tests/histories"];

/** Long plays of the whole house on the lab's clock: once is enough, since what they play runs alike on both Denos. */
const SCENES = ["tests/faults", "tests/hand_offs"];

export interface Tools {
  /** The Deno that runs this. */
  readonly deno: string;
  readonly shipped: Found;
  readonly denort: Found;
}

export function quickSteps({ deno }: Pick<Tools, "deno">): Step[] {
  const check = (name: string, ...args: string[]): Step => ({
    name,
    kind: "check",
    command: { program: deno, args },
    limitMs: 3 * MINUTE_MS,
  });
  return [
    check("bundle the dashboard", "task", "-q", "build"),
    check("format", "fmt", "--check"),
    check("lint", "lint"),
    check("types", "check", "-q"),
    tests("architecture", deno, RULES),
    tests("unit and contract", deno, ["--parallel", `--ignore=${APART.join(",")}`, "tests"]),
  ];
}

export function allSteps(tools: Tools): Step[] {
  const { deno, shipped } = tools;
  const shippedPath = "path" in shipped ? shipped.path : "";
  const apart = [...APART, ...SCENES].join(",");
  const shippedArgs = ["--unstable-raw-imports", "--parallel", `--ignore=${apart}`, "tests"];
  return [
    ...quickSteps(tools),
    tests("end to end", deno, [`--ignore=${BINARY}`, E2E]),
    {
      ...tests(`unit and contract on ${SHIPPED_DENO}`, shippedPath, shippedArgs, { DENO_TLS_CA_STORE: "system" }),
      skip: "reason" in shipped ? shipped.reason : null,
    },
    { ...tests(`the binary (${SHIPPED_DENO})`, deno, [BINARY]), skip: reasonOf(shipped) ?? reasonOf(tools.denort) },
  ];
}

/** Types are checked in a step of their own. */
function tests(
  name: string,
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Step {
  return {
    name,
    kind: "tests",
    command: { program, args: ["test", "-A", "--no-check", ...args], env },
    // Against a hang, not a bar: a machine that others use as well takes its time.
    limitMs: 10 * MINUTE_MS,
  };
}

function reasonOf(found: Found): string | null {
  return "reason" in found ? found.reason : null;
}

async function sayWhatIsMissing(): Promise<void> {
  const wanted = await Promise.all([
    onPath("gcc", "compiles the stub of the driver's library"),
    chromium(),
    onPath("strace", "shows that the binary starts no process"),
  ]);
  for (const found of wanted) {
    if ("reason" in found) console.log(`missing: ${found.reason}; tests that need it are skipped`);
  }
}

async function main(isQuick: boolean): Promise<Tally> {
  const startedAtMs = performance.now();
  const deno = Deno.execPath();
  await sayWhatIsMissing();
  const steps = isQuick
    ? quickSteps({ deno })
    : allSteps({ deno, shipped: await shippedDeno(), denort: await denort() });
  let sum = NOTHING;
  for (const step of steps) sum = add(sum, await runStep(step, console.log));
  console.log(
    `\n${((performance.now() - startedAtMs) / 1000).toFixed(0)} s with Deno ${Deno.version.deno} in ${ROOT.pathname}`,
  );
  return sum;
}

if (import.meta.main) {
  const sum = await main(Deno.args.includes("--quick"));
  console.log(lastLine(sum));
  if (sum.failed > 0 || sum.passed === 0) Deno.exit(1);
}
