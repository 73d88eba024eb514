import assert from "node:assert/strict";
import { cliExport } from "../../lib/show/cli_export.ts";
import type { CliAddress } from "../../lib/show/cli_commands.ts";

async function run(line: string) {
  const asked: Record<string, unknown>[] = [];
  const addresses: CliAddress[] = [];
  let stdout = "";
  const exit = await cliExport(line.split(" ").filter((word) => word !== ""), {
    output: { stdout: (text) => void (stdout += text), stderr() {}, isTerminal: false },
    signal: new AbortController().signal,
    invoker(address) {
      addresses.push(address);
      return Promise.resolve({
        where: "here",
        invoke: () => Promise.reject(new Error("nothing is invoked")),
        follow: () => Promise.reject(new Error("nothing is followed")),
        download(_download, input) {
          asked.push({ ...input });
          return Promise.resolve({ chunks: ReadableStream.from(["[", "]\n"]) });
        },
        close() {},
      });
    },
  });
  return { exit, stdout, asked: asked[0], address: addresses[0] };
}

Deno.test("export writes what it is handed, and its flags reach the record", async () => {
  const plain = await run("events --port 9190");
  assert.deepEqual([plain.exit, plain.stdout, plain.asked], [0, "[]\n", { what: "events" }]);
  assert.equal(plain.address?.port, "9190");
  const full = await run("--from=24h --what telemetry --format csv --to 1h");
  assert.deepEqual(full.asked, { what: "telemetry", format: "csv", from: "24h", to: "1h" });
  assert.deepEqual((await run("events --json")).asked, { what: "events", format: "json" });
});

Deno.test("export refuses what is unknown, or said twice", async () => {
  for (const line of ["events telemetry", "events --json --format csv", "events --bogus", "events --from"]) {
    await assert.rejects(run(line), { code: "invalid_input" }, line);
  }
});
