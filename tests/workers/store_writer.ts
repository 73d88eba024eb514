/** Writes events and telemetry as fast as the store takes them and prints what each is, until it is killed. */
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectStore } from "../../lib/workers/store_client.ts";
import { row } from "../record/store_contract.ts";

const [path = "", from = "0"] = Deno.args;
const clock = systemClock();
const store = connectStore({
  path,
  retention: DEFAULT_RETENTION,
  // Telemetry is flushed between the events, so that kills meet both.
  clock: { ...clock, every: (_ms, run) => clock.every(2, run) },
  log: { debug: () => {}, info: () => {}, warn: console.error, error: console.error },
});
for (let n = Number(from);; n++) {
  store.telemetry(row(n * 1_000));
  const { id } = await store.append({ atMs: n, kind: "yield", fields: { n, text: "x".repeat(n % 900) } });
  Deno.stdout.writeSync(new TextEncoder().encode(`${n} ${id}\n`));
}
