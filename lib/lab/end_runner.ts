import type { EndRunner } from "../model/ports.ts";
import { isSameProcess } from "../model/tenants.ts";
import type { Box } from "./box.ts";

/** As a pidfd and SIGKILL do it on a real box: that runner and no later process, and its server isn't told. */
export function labEndRunner({ processes, ollama }: Pick<Box, "processes" | "ollama">): EndRunner {
  return (process) => {
    const entry = processes.get(process.pid);
    if (entry === null) return { kind: "gone" };
    if (!isSameProcess(entry, process)) return { kind: "other_process" };
    return ollama.endRunner(process.pid) ? { kind: "signalled" } : { kind: "failed", message: "it is no runner" };
  };
}
