/** The card's settings in full, asked for anew whenever the live stream shows that they moved. */
import { useEffect, useState } from "preact/hooks";
import type { Answer } from "./call.ts";
import { call } from "./call.ts";
import { useDashboard } from "./dashboard.ts";

export type Overclock = Answer<"overclock">;
export type Profile = Overclock["profiles"][number];
export type LeverRow = Overclock["levers"][number];

/** Null before the first answer; a question that fails leaves the last one standing. */
export function useOverclock(): Overclock | null {
  const { part } = useDashboard();
  const [overclock, setOverclock] = useState<Overclock | null>(null);
  // What is shown of it live: when this text changes, the rest may have as well.
  const standing = JSON.stringify(part.tuning.value);
  useEffect(() => {
    if (part.tuning.value === null) return;
    const gone = new AbortController();
    call("overclock", {}, gone.signal).then(setOverclock).catch((error: unknown) => {
      if (!gone.signal.aborted) console.warn("The card's settings could not be asked for", error);
    });
    return () => gone.abort();
  }, [standing]);
  return overclock;
}
