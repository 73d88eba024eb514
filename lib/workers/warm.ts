/**
 * Entry point of the warm Worker: reads files into the page cache, one at a time, in the idle I/O class. Its client is
 * page_cache_client.ts.
 */
import { openFileDrain } from "../../ffi/file_drain.ts";
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { Failure, messageOf } from "../model/failure.ts";
import { systemClock } from "../system/clock.ts";
import type { FromWarmWorker, WarmOrder } from "./warm_protocol.ts";
import { warmFile } from "./warm_run.ts";

// Kept for the life of the Worker, like the I/O class, which belongs to this thread.
const tools = {
  libc: openLibc(),
  pages: openPageCalls(),
  drain: openFileDrain(),
  methods: new Map(),
  clock: systemClock(),
};
tools.pages.setIdleIo();

function post(message: FromWarmWorker): void {
  self.postMessage(message);
}

self.addEventListener("message", ({ data: order }: MessageEvent<WarmOrder>) => {
  const { seq } = order;
  try {
    post({ kind: "ended", seq, result: warmFile(tools, order) });
  } catch (error) {
    const failure = error instanceof Failure
      ? { code: error.code, message: error.message, hint: error.hint, details: error.details }
      : null;
    post({ kind: "refused", seq, failure, message: messageOf(error) });
  }
});
post({ kind: "ready" });
