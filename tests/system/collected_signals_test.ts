/** Signals that only a pending promise waits for: Deno 2.4.2 collects what it holds weakly, so this runs there too. */
import assert from "node:assert/strict";

const PROGRAM = `
  const { joinSignals } = await import("ROOT/lib/model/join_signals.ts");
  const { systemClock } = await import("ROOT/lib/system/clock.ts");
  const source = new AbortController();
  const heard = [];
  // In a function of its own, so that nothing but the promise is left of it.
  const wait = (name, signal) => {
    new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true })).then(() => heard.push(name));
  };
  const start = () => {
    wait("joined", joinSignals(new AbortController().signal, source.signal).signal);
    wait("deadline", systemClock().deadline(600_000, source.signal));
  };
  start();
  for (let round = 0; round < 5; round++) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    gc();
  }
  source.abort();
  await new Promise((resolve) => setTimeout(resolve, 0));
  console.log(heard.join(" "));
`;

Deno.test("a joined signal and a deadline outlive a collection while a promise waits for them", async () => {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    const root = new URL("../../", import.meta.url).href.replace(/\/$/, "");
    await Deno.writeTextFile(file, PROGRAM.replaceAll("ROOT", root));
    const args = ["run", "-A", "--no-check", "--no-config", "--v8-flags=--expose-gc", file];
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    assert.equal(new TextDecoder().decode(stdout), "joined deadline\n", new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(file);
  }
});
