import { openLibc } from "../../ffi/libc.ts";
import type { Proc } from "../../lib/model/ports.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import type { Subject } from "./subject.ts";

/** A server that someone started on this machine; its address comes from the environment. */
export function realServer(variable: "HYPERSWAP_TEST_OLLAMA" | "HYPERSWAP_TEST_COMFYUI"): {
  readonly missing: string | null;
  readonly open: () => Promise<Subject & { readonly proc: Proc }>;
} {
  const url = Deno.env.get(variable) ?? "";
  const missing = url === "" ? `${variable} is not set` : null;
  return {
    missing,
    open() {
      const libc = openLibc();
      return Promise.resolve({
        url,
        port: portOf(url),
        clock: systemClock(),
        proc: openProc(libc, "/proc"),
        until: (promise) => promise,
        [Symbol.asyncDispose]() {
          libc[Symbol.dispose]();
          return Promise.resolve();
        },
      });
    },
  };
}
