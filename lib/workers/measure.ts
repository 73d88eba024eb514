/**
 * Entry point of the measuring Worker: how much of which file is in memory. Its client is measure_client.ts.
 *
 * The first look at a sampled file waits for the disk, and a network file system may not answer at all: here that holds
 * up nobody.
 */
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { messageOf } from "../model/failure.ts";
import type { Residency } from "../model/page_cache.ts";
import { KeptFiles } from "../sample/kept_files.ts";
import { measureResidency } from "../sample/residency.ts";
import { RootFolders } from "../sample/root_folders.ts";
import { systemClock } from "../system/clock.ts";
import type { FromMeasureWorker, ToMeasureWorker } from "./measure_protocol.ts";

/** News at least this often: each is proof that it still works, and one for every file would cost more than the files. */
const NEWS_MS = 20;

const libc = openLibc();
const pages = openPageCalls();
const tools = { libc, pages, clock: systemClock(), kept: new KeptFiles(libc, pages) };

function post(message: FromMeasureWorker): void {
  self.postMessage(message);
}

function measure({ seq, paths, question, givenUp }: Extract<ToMeasureWorker, { kind: "measure" }>): void {
  const word = new Int32Array(givenUp);
  using folders = new RootFolders(libc, pages, question.roots);
  const ready = { ...tools, folders };
  let found: Residency[] = [];
  let newsAtMs = tools.clock.monotonicMs();
  for (const path of paths) {
    if (Atomics.load(word, 0) !== 0) return;
    found.push(measureResidency(ready, path, question));
    const nowMs = tools.clock.monotonicMs();
    if (nowMs - newsAtMs < NEWS_MS) continue;
    post({ kind: "found", seq, residencies: found });
    found = [];
    newsAtMs = nowMs;
  }
  post({ kind: "found", seq, residencies: found });
}

self.addEventListener("message", ({ data: message }: MessageEvent<ToMeasureWorker>) => {
  const { seq } = message;
  try {
    if (message.kind === "measure") return measure(message);
    pages.unmap(message);
    post({ kind: "unlocked", seq });
  } catch (error) {
    post({ kind: "refused", seq, message: messageOf(error) });
  }
});
