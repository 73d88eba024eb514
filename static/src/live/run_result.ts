import { effect } from "@preact/signals";
import { call, Refusal } from "./call.ts";
import type { Dashboard } from "./dashboard.ts";

/** Waits until the live state shows the run as ended, then asks for its result; `what` names it in a refusal. */
export async function resultOf(
  dashboard: Dashboard,
  { id, what }: { readonly id: string; readonly what: string },
): Promise<unknown> {
  await new Promise<void>((resolve) => {
    const stop = effect(() => {
      const runs = dashboard.part.runs.value;
      const run = runs?.find((candidate) => candidate.id === id);
      if (run === undefined || run.state === "running") return;
      // Not inside the effect's own first run, where `stop` doesn't exist yet.
      queueMicrotask(() => stop());
      resolve();
    });
  });
  const run = await call("run", { id });
  if (run.state === "done") return run.result;
  throw new Refusal(
    run.error?.code ?? run.state,
    run.error?.message ?? `${what} was ${run.state}`,
    run.error?.hint ?? null,
  );
}
