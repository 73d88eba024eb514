import assert from "node:assert/strict";
import { processOutput } from "../../lib/show/cli_output.ts";

/** A stream that takes some writes and then fails. */
function stream(error: Error | null) {
  const written: string[] = [];
  return {
    written,
    isTerminal: () => false,
    writeSync(bytes: Uint8Array): number {
      if (error !== null) throw error;
      written.push(new TextDecoder().decode(bytes));
      return bytes.byteLength;
    },
  };
}

Deno.test("a reader that has gone is no error, a full disk is", () => {
  const stderr = stream(null);
  const gone = processOutput({ stdout: stream(new Deno.errors.BrokenPipe("gone")), stderr });
  gone.stdout("text");
  assert.deepEqual([gone.gone?.aborted, gone.exitAfter(0), stderr.written], [true, 0, []]);

  const full = processOutput({ stdout: stream(new Error("No space left on device")), stderr });
  full.stdout("text");
  full.stdout("more");
  assert.deepEqual([full.gone?.aborted, full.exitAfter(0), full.exitAfter(3)], [true, 5, 5]);
  assert.deepEqual(stderr.written, ["error: Cannot write to standard output: No space left on device\n"]);

  const fine = processOutput({ stdout: stream(null), stderr });
  fine.stdout("text");
  assert.deepEqual([fine.gone?.aborted, fine.exitAfter(3)], [false, 3]);
});

Deno.test("whoever can't be told anything is told nothing", () => {
  const silent = processOutput({ stdout: stream(null), stderr: stream(new Deno.errors.BrokenPipe("gone")) });
  silent.stderr("text");
  assert.equal(silent.exitAfter(0), 0);
});
