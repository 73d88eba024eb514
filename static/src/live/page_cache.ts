/** The page cache in detail: asked for when the live figures say that it moved, since nobody needs every file each second. */
import { useEffect, useState } from "preact/hooks";
import type { Said } from "./action.ts";
import { type Answer, call, Refusal } from "./call.ts";
import type { Dashboard } from "./dashboard.ts";
import { resultOf } from "./run_result.ts";
import type { Run } from "./wire.ts";

export type CacheReport = Answer<"cache-report">;
export type CacheFile = CacheReport["files"][number];
export type WarmPlan = Answer<"warm-plan">;

export interface PageCacheState {
  readonly report: CacheReport | null;
  readonly plan: WarmPlan | null;
  /** Why it couldn't be asked, or null. */
  readonly error: string | null;
}

/** While something is being read the bars move with it. */
const WARMING_MS = 1_500;

/** The warm under way, as the live stream tells it. */
export function warmOf(runs: readonly Run[] | null): Run | null {
  return runs?.findLast(({ operation, state }) => operation.startsWith("warm-") && state === "running") ?? null;
}

/** Waits for the end of a warm, and says how it went. A failure is thrown as the refusal that it is. */
export async function endOfWarm(dashboard: Dashboard, { id }: { readonly id: string }): Promise<Said> {
  try {
    // A run's result is the answer of its operation: this one started a warm.
    const { message, stopped_by, files } = await resultOf(dashboard, { id, what: "The warm" }) as Answer<"warm-all">;
    const isWhole = stopped_by === null && files.every(({ end }) => end === "done");
    const reason = files.find(({ end }) => end !== "done")?.reason ?? null;
    return { tone: isWhole ? "ok" : "warn", title: message, detail: reason };
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== "cancelled") throw error;
    return { tone: "info", title: error.message, detail: null };
  }
}

/** `moved` changes whenever it is worth asking again. */
export function usePageCache(moved: string, isWarming: boolean): PageCacheState {
  const [state, setState] = useState<PageCacheState>({ report: null, plan: null, error: null });
  useEffect(() => {
    const leaving = new AbortController();
    const ask = async () => {
      try {
        const report = await call("cache-report", {}, leaving.signal);
        const plan = await call("warm-plan", {}, leaving.signal);
        setState({ report, plan, error: null });
      } catch (error) {
        if (leaving.signal.aborted) return;
        const said = error instanceof Refusal ? error.message : "The page cache was not answered";
        setState((before) => ({ ...before, error: said }));
      }
    };
    void ask();
    const timer = isWarming ? setInterval(() => void ask(), WARMING_MS) : null;
    return () => {
      leaving.abort();
      if (timer !== null) clearInterval(timer);
    };
  }, [moved, isWarming]);
  return state;
}
