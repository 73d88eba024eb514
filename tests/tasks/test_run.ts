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

/**
 * What runs alike on both Denos, so that once is enough: long plays of the whole house on the lab's clock, and what asks
 * the runtime for nothing.
 */
const ALIKE = ["tests/faults", "tests/hand_offs", "tests/decide", "tests/model"];

export interface Tools {
  /** The Deno that runs this. */
  readonly deno: string;
  readonly shipped: Found;
  readonly denort: Found;
}

/** What a run does: `first` one after the other, then the lanes beside each other, each in its order. */
export interface Plan {
  readonly first: readonly Step[];
  readonly lanes: readonly (readonly Step[])[];
}

export function quickPlan({ deno }: Pick<Tools, "deno">): Plan {
  const { bundle, format, lint, types, architecture, units } = ownSteps(deno);
  return { first: [bundle, format, lint, types, architecture, units], lanes: [] };
}

/** A browser waits for most of its time, which leaves room for what only computes. */
export function wholePlan(tools: Tools): Plan {
  const { deno, shipped } = tools;
  const { bundle, format, lint, types, architecture, units } = ownSteps(deno);
  const shippedPath = "path" in shipped ? shipped.path : "";
  const apart = [...APART, ...ALIKE].join(",");
  const shippedArgs = ["--unstable-raw-imports", "--parallel", `--ignore=${apart}`, "tests"];
  const onShipped: Step = {
    ...tests(`unit and contract on ${SHIPPED_DENO}`, shippedPath, shippedArgs, { DENO_TLS_CA_STORE: "system" }),
    skip: reasonOf(shipped),
  };
  const binary: Step = {
    ...tests(`the binary (${SHIPPED_DENO})`, deno, [BINARY]),
    skip: reasonOf(shipped) ?? reasonOf(tools.denort),
  };
  return {
    first: [bundle, format, lint],
    lanes: [
      [types, tests("end to end", deno, [`--ignore=${BINARY}`, E2E]), binary, architecture],
      [units, onShipped],
    ],
  };
}

function ownSteps(deno: string) {
  const check = (name: string, ...args: string[]): Step => ({
    name,
    kind: "check",
    command: { program: deno, args },
    limitMs: 3 * MINUTE_MS,
  });
  return {
    bundle: check("bundle the dashboard", "task", "-q", "build"),
    format: check("format", "fmt", "--check"),
    lint: check("lint", "lint"),
    types: check("types", "check", "-q"),
    architecture: tests("architecture", deno, RULES),
    units: tests("unit and contract", deno, ["--parallel", `--ignore=${APART.join(",")}`, "tests"]),
  };
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

async function runLane(steps: readonly Step[]): Promise<Tally> {
  let sum = NOTHING;
  for (const step of steps) sum = add(sum, await runStep(step, console.log));
  return sum;
}

async function main(isQuick: boolean): Promise<Tally> {
  const startedAtMs = performance.now();
  const deno = Deno.execPath();
  await sayWhatIsMissing();
  const { first, lanes } = isQuick
    ? quickPlan({ deno })
    : wholePlan({ deno, shipped: await shippedDeno(), denort: await denort() });
  const tallies = [await runLane(first), ...await Promise.all(lanes.map(runLane))];
  const sum = tallies.reduce(add, NOTHING);
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
