/** The end of one process: really that one, by the kernel's own word. */
import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { endProcess } from "../../lib/act/end_process.ts";
import { openProc } from "../../lib/sample/proc.ts";

Deno.test("ends the process that is meant, by pid and start time, and no other", async () => {
  using libc = openLibc();
  const proc = openProc(libc, "/proc");
  const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
  const entry = proc.process(child.pid);
  assert.ok(entry);
  const { pid, startTime } = entry;
  assert.deepEqual(endProcess({ libc, proc }, { pid, startTime: startTime + 1 }), { kind: "other_process" });
  assert.equal(proc.process(pid)?.startTime, startTime, "it lives");
  assert.deepEqual(endProcess({ libc, proc }, { pid, startTime }), { kind: "signalled" });
  assert.equal((await child.status).signal, "SIGKILL");
  assert.deepEqual(endProcess({ libc, proc }, { pid, startTime }), { kind: "gone" });
});

Deno.test("what the kernel refuses is told in its words, and no descriptor stays open", () => {
  using libc = openLibc();
  const proc = openProc(libc, "/proc");
  const self = proc.process(Deno.pid);
  assert.ok(self);
  const closed: number[] = [];
  const refusing = {
    pidfdOpen: () => 77,
    close: (fd: number) => void closed.push(fd),
    pidfdSendSignal: () => {
      throw new Error("Cannot pidfd_send_signal: EPERM");
    },
  };
  const process = { pid: self.pid, startTime: self.startTime };
  const reply = endProcess({ libc: refusing, proc }, process);
  assert.deepEqual(reply, { kind: "failed", message: "Cannot pidfd_send_signal: EPERM" });
  assert.deepEqual(closed, [77]);
});
