/// <reference no-default-lib="true" />
/// <reference lib="deno.worker" />
/** The archive Worker: long reads of the record, so that they delay neither its writes nor the service. */
import { rankModels } from "../decide/model_ranking.ts";
import { messageOf } from "../model/failure.ts";
import { ArchiveFile } from "../record/archive_file.ts";
import type { ArchiveCallName, ArchiveCalls, ArchiveReply, ArchiveRequest } from "./archive_protocol.ts";

const reply = (message: ArchiveReply) => self.postMessage(message);

self.addEventListener("message", ({ data: request }: MessageEvent<ArchiveRequest>) => {
  try {
    reply({ seq: request.seq, ok: true, value: answer(new ArchiveFile(request.path), request) });
  } catch (error) {
    reply({ seq: request.seq, ok: false, message: messageOf(error) });
  }
});

function answer(file: ArchiveFile, request: ArchiveRequest): ArchiveCalls[ArchiveCallName]["answer"] {
  switch (request.call) {
    case "series":
      return file.series(request.ask);
    case "profiles":
      return file.profiles(request.ask.sinceMs);
    case "swaps":
      return file.swaps(request.ask.sinceMs);
    case "models":
      return rankModels(file.newest(request.ask.sinceMs, ["swap", "yield", "purge"]), request.ask.nowMs);
    case "events":
      return file.events(request.ask);
    case "telemetry":
      return file.telemetry(request.ask);
  }
}
