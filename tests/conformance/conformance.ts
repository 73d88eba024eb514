/**
 * `deno task conformance`: the official client in every protocol version over stdio and HTTP, then the official
 * conformance suite, run by Deno, against `/mcp` of a demo. Ends with 1 when the client is disappointed or a scenario
 * comes out otherwise than expected.ts says; without its package the suite is skipped, and says why.
 */
import { ask } from "../tasks/tools.ts";
import { FROM_SOURCE, RunningService } from "../e2e/running_service.ts";
import { type Check, differences } from "./compare.ts";
import { EXPECTED, SUITE } from "./expected.ts";
import { speakAll } from "./protocols.ts";

/** Outside the project, whose lock file doesn't know the package. */
const RUN = ["run", "-q", "-A", "--no-config", "--no-lock", `npm:${SUITE}`];

async function suite(
  folder: string,
  args: readonly string[],
): Promise<{ readonly code: number; readonly said: string }> {
  const { code, stdout, stderr } = await ask(Deno.execPath(), [...RUN, ...args], { cwd: folder });
  return { code, said: `${stdout}${stderr}` };
}

/** The checks by scenario, from the files that the suite leaves: `server-<scenario>-<time>/checks.json`. */
async function read(folder: string): Promise<ReadonlyMap<string, readonly Check[]>> {
  const found = new Map<string, readonly Check[]>();
  for await (const { name } of Deno.readDir(folder)) {
    const scenario = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name)?.[1];
    if (scenario !== undefined) {
      found.set(scenario, JSON.parse(await Deno.readTextFile(`${folder}/${name}/checks.json`)));
    }
  }
  return found;
}

/** What isn't as it should be. */
async function runSuite(url: string, folder: string): Promise<readonly string[]> {
  const there = await suite(folder, ["list", "--server"]);
  if (there.code !== 0) {
    console.log(`Skipped: cannot have ${SUITE}: ${there.said.trim().split("\n")[0]}`);
    return [];
  }
  const results = `${folder}/results`;
  const { said } = await suite(folder, ["server", "--url", `${url}/mcp`, "--suite", "all", "-o", results]);
  const found = await read(results).catch((error) => {
    throw new Error(`Cannot read what the suite found: ${said.slice(0, 2_000)}`, { cause: error });
  });
  for (const [name, { failures, warnings = [], why = "" }] of Object.entries(EXPECTED)) {
    const says = [...failures, ...warnings].map((message) => `\n    ${message}`).join("");
    console.log(`${failures.length === 0 ? "passes" : "fails "}  ${name}${why === "" ? "" : `: ${why}`}${says}`);
  }
  const passed = Object.values(EXPECTED).filter(({ failures }) => failures.length === 0).length;
  console.log(`${found.size} scenarios, ${passed} pass`);
  return differences(found, EXPECTED);
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap_conformance_" });
  try {
    await using service = await RunningService.start(FROM_SOURCE, { command: "demo", folder });
    await service.until("/api/stats", () => true);
    const spoken = await speakAll(service);
    for (const { version, over, wrong } of spoken) console.log(`${version} over ${over}: ${wrong ?? "ok"}`);
    const wrong = await runSuite(service.url, folder);
    for (const line of wrong) console.log(`not as expected: ${line}`);
    const isOk = wrong.length === 0 && spoken.every((one) => one.wrong === null);
    console.log(isOk ? "ok" : "FAILED");
    Deno.exitCode = isOk ? 0 : 1;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
