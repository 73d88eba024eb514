/** One signal for several; its sources let go of it when it is disposed of. */
export interface JoinedSignal extends Disposable {
  readonly signal: AbortSignal;
}

/**
 * Aborts with the first of its sources. Made by hand rather than by AbortSignal.any, whose result Deno 2.4.2 holds weakly
 * even while somebody listens: what only a pending promise waits for is then collected, and never aborts.
 */
export function joinSignals(...sources: readonly AbortSignal[]): JoinedSignal {
  const controller = new AbortController();
  const dispose = () => {
    for (const source of sources) source.removeEventListener("abort", onAbort);
  };
  const onAbort = () => {
    dispose();
    controller.abort(sources.find(({ aborted }) => aborted)?.reason);
  };
  for (const source of sources) source.addEventListener("abort", onAbort);
  if (sources.some(({ aborted }) => aborted)) onAbort();
  return { signal: controller.signal, [Symbol.dispose]: dispose };
}
