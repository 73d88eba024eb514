import type { Clock } from "../model/ports.ts";
import type { SourceReport } from "../model/sample.ts";

/** How long the first sample waits for the servers' first answers: a refusal is there at once, a stall isn't. */
const WAIT_MS = 500;
const STEP_MS = 10;

/** Resolves when each watcher has heard something, good or bad, or has waited long enough for the first sample. */
export async function firstAnswers(
  watches: readonly { report(): SourceReport }[],
  clock: Clock,
): Promise<void> {
  const untilMs = clock.monotonicMs() + WAIT_MS;
  const hasHeard = ({ lastOkAtMs, lastError }: SourceReport) => lastOkAtMs !== null || lastError !== null;
  while (clock.monotonicMs() < untilMs && !watches.every((watch) => hasHeard(watch.report()))) {
    await clock.sleep(STEP_MS);
  }
}
