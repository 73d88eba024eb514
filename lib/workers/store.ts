/// <reference no-default-lib="true" />
/// <reference lib="deno.worker" />
/** The store Worker: holds the record's file, so that a slow disk blocks nobody else. */
import { messageOf } from "../model/failure.ts";
import { StoreFile } from "../record/store_file.ts";
import { systemClock } from "../system/clock.ts";
import type { StoreCalls, StoreOpening, StoreReply, StoreRequest } from "./store_protocol.ts";

const reply = (message: StoreReply) => self.postMessage(message);

self.addEventListener("message", ({ data: opening }: MessageEvent<StoreOpening>) => {
  const file = new StoreFile(opening.path, {
    clock: systemClock(),
    retention: opening.retention,
    onNote: (message) => reply({ kind: "note", message }),
  });
  self.addEventListener("message", ({ data: request }: MessageEvent<StoreRequest>) => {
    try {
      reply({ kind: "answer", seq: request.seq, value: answer(file, request) });
    } catch (error) {
      reply({ kind: "refusal", seq: request.seq, message: messageOf(error) });
    }
  });
}, { once: true });

function answer(file: StoreFile, request: StoreRequest): StoreCalls[keyof StoreCalls]["answer"] {
  switch (request.call) {
    case "writeEvents":
      return file.writeEvents(request.ask);
    case "writeTelemetry":
      file.writeTelemetry(request.ask);
      return null;
    case "writeThroughput":
      file.writeThroughput(request.ask);
      return null;
    case "rollUp":
      return file.rollUp();
    case "history":
      return file.history(request.ask);
    case "status":
      return file.status();
    case "prune":
      return file.prune(request.ask);
    case "close":
      file.close();
      return null;
  }
}
