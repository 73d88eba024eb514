import type { Clock } from "../../lib/model/ports.ts";

/** What a contract is held against: a server of either kind, and a way to let its time pass. */
export interface Subject extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly clock: Clock;
  /** Waits for the promise: a lab's clock is advanced meanwhile, a real one goes by itself. */
  until<T>(promise: Promise<T>): Promise<T>;
}

/** Waits until `look` says yes, asking every 50 ms of the subject's time for at most `limitMs`. */
export async function eventually(
  subject: Subject,
  look: () => Promise<boolean>,
  options: { readonly limitMs: number; readonly what: string },
): Promise<void> {
  const endMs = subject.clock.monotonicMs() + options.limitMs;
  while (!(await subject.until(look()))) {
    if (subject.clock.monotonicMs() > endMs) throw new Error(`Cannot see ${options.what} within ${options.limitMs} ms`);
    await subject.until(subject.clock.sleep(50));
  }
}

/** One test of a contract, named after what it is held against. Without a server it is skipped, and its name says why. */
export function clause(
  options: { readonly against: string; readonly missing: string | null },
  title: string,
  check: () => Promise<void>,
): void {
  const { against, missing } = options;
  if (missing === null) Deno.test(`${against}: ${title}`, check);
  else Deno.test({ name: `${against}: ${title} (skipped: ${missing})`, ignore: true, fn: check });
}
