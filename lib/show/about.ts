/** Who is at the other end of an invoker, as far as every door has to say it. */
import { ignoreProgress } from "../operations/operation.ts";
import { operationNamed } from "../operations/registry.ts";
import type { Invoker } from "./invoker.ts";

export interface ServiceAbout {
  readonly version: string;
  /** What a simulated box is called; null on a real one. */
  readonly simulation: string | null;
}

/** Asks once; a service that can't say is a real one of unknown version. */
export async function askAbout(invoker: Invoker, signal: AbortSignal): Promise<ServiceAbout> {
  const outcome = await invoker.invoke(operationNamed("version"), {}, { signal, progress: ignoreProgress });
  if (!outcome.ok) return { version: "unknown", simulation: null };
  const { version, simulation } = outcome.value;
  return { version: String(version), simulation: typeof simulation === "string" ? simulation : null };
}
