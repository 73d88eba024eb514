/** The card without a service, for `restore` alone: what a killed or hung owner left is put back by whoever asks. */
import type { Base } from "./service.ts";
import type { Services } from "./model/services.ts";
import { cardAlone } from "./services/card_alone.ts";
import { type Owner, type OwnerLock, readOwner, takeLock } from "./system/owner_lock.ts";
import { connectGpu } from "./workers/nvml_client.ts";

/** How long an owner that doesn't answer is waited for. Fans that are pinned don't wait longer. */
const LOCK_MS = 2_000;
const LOOK_EVERY_MS = 100;

export interface LoneCard extends AsyncDisposable {
  readonly services: Services;
}

/** Waits for the owner's lock, then goes on without it and says so. */
export async function openLoneCard({ loaded, places, libc, clock, log }: Base): Promise<LoneCard> {
  await Deno.mkdir(places.stateDir, { recursive: true });
  const path = `${places.stateDir}/owner.lock`;
  const self: Owner = { pid: Deno.pid, url: "", socket: null, since: new Date(clock.wallMs()).toISOString() };
  const lock = await waitForLock(path, { calls: libc, self, clock });
  const owner = lock === null ? readOwner(path) : null;
  const { uuid, index, nvml } = loaded.config.gpu;
  const gpu = connectGpu({
    source: { kind: "library", paths: nvml === "" ? null : [nvml] },
    choice: uuid === "" ? { uuid: null, index } : { uuid, index: null },
    clock,
    log,
    sysRoot: loaded.config.proc.sys_root,
    levers: { stateDir: places.stateDir, mayChange: true, marksUncleanEnd: lock !== null },
  });
  const note = lock !== null
    ? null
    : `Done without the owner's lock: ${
      owner === null ? "another process" : `pid ${owner.pid}`
    } holds it and did not ` +
      `answer within ${LOCK_MS / 1000} s; end it, or it may set the card again`;
  return {
    // as: restoring asks for the card alone, and nothing else may be opened beside an owner that hangs.
    services: { card: cardAlone({ control: gpu.card, note }) } as unknown as Services,
    [Symbol.asyncDispose]: async () => {
      await gpu.close();
      lock?.[Symbol.dispose]();
    },
  };
}

async function waitForLock(
  path: string,
  { calls, self, clock }: { readonly calls: Base["libc"]; readonly self: Owner; readonly clock: Base["clock"] },
): Promise<OwnerLock | null> {
  for (let waitedMs = 0;; waitedMs += LOOK_EVERY_MS) {
    try {
      return takeLock(path, calls, self);
    } catch {
      // Held, or not ours to open: either way the card can still be restored.
      if (waitedMs >= LOCK_MS) return null;
      await clock.sleep(LOOK_EVERY_MS);
    }
  }
}
