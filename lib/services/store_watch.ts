import { messageOf } from "../model/failure.ts";
import type { StoreStatus } from "../model/history.ts";
import type { Clock, Log, Store, Timer } from "../model/ports.ts";

const ASK_MS = 10_000;

export interface StoreWatch extends Timer {
  /** The newest answer; null before the first. */
  status(): StoreStatus | null;
}

/** Asks the store about itself from time to time, so that health answers at once. */
export function watchStore(
  store: Pick<Store, "status">,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): StoreWatch {
  let latest: StoreStatus | null = null;
  const ask = () => {
    store.status().then((status) => {
      latest = status;
    }, (error) => log.warn("Cannot ask the store about itself", { error: messageOf(error) }));
  };
  ask();
  const timer = clock.every(ASK_MS, ask);
  return { status: () => latest, stop: () => timer.stop() };
}
