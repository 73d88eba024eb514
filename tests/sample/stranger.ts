/** Asks a thread that is nobody about files that belong to us. */
import type { Residency } from "../../lib/model/page_cache.ts";
import type { StrangerQuestion } from "./stranger_worker.ts";

export interface Stranger extends Disposable {
  ask(question: StrangerQuestion): Promise<readonly Residency[]>;
}

/** Why there's no becoming a stranger, or null. */
export function whyNoStranger(): string | null {
  return Deno.uid() === 0 ? null : "only root can become somebody else";
}

export async function stranger(): Promise<Stranger> {
  const worker = new Worker(new URL("./stranger_worker.ts", import.meta.url), { type: "module" });
  const next = <T>() =>
    new Promise<T>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<T>) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message));
      };
    });
  if (!await next<boolean>()) throw new Error("Cannot become a stranger: a system call was refused");
  return {
    ask: (question) => {
      const answer = next<readonly Residency[]>();
      worker.postMessage(question);
      return answer;
    },
    [Symbol.dispose]: () => worker.terminate(),
  };
}
