/** What may be locked beside what is locked already. Pure; throws a Failure that says what it would take. */
import type { ModelFile } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import { type Bytes, gbText } from "../model/units.ts";

type Sizes = readonly Pick<ModelFile, "sizeBytes">[];

/** `files`: those that aren't locked yet. */
export function keepBudget(
  files: Sizes,
  { lockedBytes, budgetBytes }: { readonly lockedBytes: Bytes; readonly budgetBytes: Bytes },
): void {
  const needed = sumOfSizes(files);
  if (needed === 0 || lockedBytes + needed <= budgetBytes) return;
  const beside = `beside the ${gbText(lockedBytes)} GB locked exceed the budget of ${gbText(budgetBytes)} GB`;
  throw new Failure("wont_fit", `Cannot pin: its ${gbText(needed)} GB ${beside}`, {
    hint: "Unpin something, or raise the budget; locked memory is out of reach for every other program",
    details: { needed_gb: needed / 1e9, locked_gb: lockedBytes / 1e9, budget_gb: budgetBytes / 1e9 },
  });
}

/** Locked pages no longer count as available, and Ollama reads without mmap where too little is. */
export function leaveRoom(
  files: Sizes,
  { availableBytes, reserveBytes }: { readonly availableBytes: Bytes | null; readonly reserveBytes: Bytes },
): void {
  const needed = sumOfSizes(files);
  if (availableBytes === null || availableBytes - needed >= reserveBytes) return;
  throw new Failure(
    "wont_fit",
    `Cannot pin ${gbText(needed)} GB: only ${gbText(availableBytes)} GB are available to programs`,
    {
      hint: `${gbText(reserveBytes)} GB must stay (warm.reserve_gb)`,
      details: { needed_gb: needed / 1e9, available_gb: availableBytes / 1e9, reserve_gb: reserveBytes / 1e9 },
    },
  );
}

function sumOfSizes(files: Sizes): Bytes {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
