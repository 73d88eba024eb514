/**
 * Entry point of the warm Worker: reads files into the page cache, one at a time, in the idle I/O class. Its client is
 * page_cache_client.ts.
 */
import { ErrnoError } from "../../ffi/errno.ts";
import { openFileDrain } from "../../ffi/file_drain.ts";
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { Failure, messageOf } from "../model/failure.ts";
import { systemClock } from "../system/clock.ts";
import type { FailureParts, FromWarmWorker, WarmOrder } from "./warm_protocol.ts";
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

/** A call that the kernel refuses says something of this file's disk; anything else is a defect. */
function failureOf(error: unknown, path: string): FailureParts | null {
  if (error instanceof ErrnoError) {
    return {
      code: "unavailable",
      message: `Cannot read ${path}: ${error.code}`,
      hint: "Look at the disk or the share it lies on",
      details: { call: error.call, errno: error.errno },
    };
  }
  if (!(error instanceof Failure)) return null;
  const { code, message, hint, details } = error;
  return { code, message, hint, details };
}

self.addEventListener("message", ({ data: order }: MessageEvent<WarmOrder>) => {
  const { seq } = order;
  try {
    post({ kind: "ended", seq, result: warmFile(tools, order) });
  } catch (error) {
    post({ kind: "refused", seq, failure: failureOf(error, order.path), message: messageOf(error) });
  }
});
post({ kind: "ready" });
