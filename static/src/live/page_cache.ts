/** The page cache in detail: asked for when the live figures say that it moved, since nobody needs every file each second. */
import { useEffect, useState } from "preact/hooks";
import { type Answer, call, Refusal } from "./call.ts";
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
