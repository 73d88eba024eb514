/** Ends one process, and surely that one. */
import type { Libc } from "../../ffi/libc.ts";
import type { EndRunnerReply } from "../model/events.ts";
import { messageOf } from "../model/failure.ts";
import type { Proc } from "../model/ports.ts";
import { isSameProcess, type ProcessId } from "../model/tenants.ts";

const SIGKILL = 9;

/**
 * A pidfd first, then the start time: what it names can't be replaced by another process between the look and the
 * signal. SIGKILL, as its server would do it: a stuck runner hears nothing else.
 */
export function endProcess(
  { libc, proc }: { readonly libc: Pick<Libc, "pidfdOpen" | "pidfdSendSignal" | "close">; readonly proc: Proc },
  process: ProcessId,
): EndRunnerReply {
  let pidfd: number;
  try {
    pidfd = libc.pidfdOpen(process.pid);
  } catch (error) {
    return isGone(error) ? { kind: "gone" } : { kind: "failed", message: messageOf(error) };
  }
  try {
    const entry = proc.process(process.pid);
    if (entry === null) return { kind: "gone" };
    if (!isSameProcess(entry, process)) return { kind: "other_process" };
    libc.pidfdSendSignal(pidfd, SIGKILL);
    return { kind: "signalled" };
  } catch (error) {
    return isGone(error) ? { kind: "gone" } : { kind: "failed", message: messageOf(error) };
  } finally {
    libc.close(pidfd);
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ESRCH";
}
