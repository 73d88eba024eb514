/** No machine is as slow as that: whoever still waits then waits for what never comes. */
const PATIENCE_MS = 30_000;

/** Fails with what it waited for, rather than with the limit of a whole run. */
export async function inTime<T>(promise: Promise<T>, what: () => string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`Waited ${PATIENCE_MS / 1_000} s in vain: ${what()}`)),
    PATIENCE_MS,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
