import assert from "node:assert/strict";

/** Signals reach a whole process, so this is one of its own; it writes a line for each that it was told. */
const CHILD = `
  import { watchSignals } from ${JSON.stringify(new URL("../../lib/system/signals.ts", import.meta.url).href)};
  const hold = setTimeout(() => {}, 60_000);
  const watch = watchSignals({
    onStop: (signal) => {
      console.log(signal);
      if (signal !== "SIGINT") return;
      watch.stop();
      console.log("unwatched");
    },
    onReload: () => console.log("reload"),
  });
  console.log("watching");
`;

Deno.test("HUP reloads, TERM and INT stop, and once unwatched they end the process as ever", async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-config", "--no-check", `data:application/typescript,${encodeURIComponent(CHILD)}`],
    signal: AbortSignal.timeout(20_000),
    stdout: "piped",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream());
  const steps: Readonly<Record<string, Deno.Signal>> = {
    "watching\n": "SIGHUP",
    "reload\n": "SIGTERM",
    "SIGTERM\n": "SIGINT",
    "SIGINT\nunwatched\n": "SIGTERM",
  };
  let pending = "";
  const seen: string[] = [];
  for await (const chunk of lines) {
    pending += chunk;
    const signal = steps[pending];
    if (signal === undefined) continue;
    seen.push(pending);
    pending = "";
    child.kill(signal);
  }
  assert.deepEqual(seen, Object.keys(steps));
  assert.equal((await child.status).signal, "SIGTERM");
});
