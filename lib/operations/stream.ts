/** `/api/stats` live: a whole snapshot, then what changed (frames.ts says how to read it). */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import type { Snapshot } from "../model/services.ts";
import { diffStats } from "./frames.ts";
import { feed } from "./operation.ts";
import { FEEDS } from "./routes.ts";
import { StatsWire, viewStats } from "./stats.ts";
import type { Stats } from "./stats.ts";

export const PatchWire = z.object({
  t: z.number().describe("the new /timestamp, Unix seconds"),
  r: z.number().int().describe("the new /revision"),
  relist: z.record(z.string(), z.array(z.unknown()).readonly()).optional()
    .describe("JSON pointer of a list → the list anew, a number for the item that stood there before; before `set`"),
  set: z.record(z.string(), z.unknown()).optional().describe("JSON pointer → new value, replacing what was there"),
  prepend: z.record(z.string(), z.array(z.unknown()).readonly()).optional()
    .describe("JSON pointer of a list → items to put in front; applied first, the list then cut to 50"),
});

export const FrameWire = z.discriminatedUnion("event", [
  z.object({ event: z.literal("snapshot"), data: StatsWire }),
  z.object({ event: z.literal("patch"), data: PatchWire }),
]);

export const stream = feed({
  name: "stream",
  summary: "The whole box, live: a snapshot of /api/stats, then a patch with what changed each second",
  access: "read",
  input: z.object({}),
  item: FrameWire,
  http: FEEDS.stream,
  isShared: true,
  open(services, _input, to) {
    let last: Stats | null = null;
    const show = (snapshot: Snapshot) => {
      const next = viewStats(snapshot);
      to.emit(last === null ? { event: "snapshot", data: next } : { event: "patch", data: diffStats(last, next) });
      last = next;
    };
    const first = firstSnapshot(() => services.live.snapshot());
    if (first !== null) show(first);
    return services.live.subscribe(show);
  },
});

/** Null before the first sample: the stream then begins with it. */
function firstSnapshot(read: () => Snapshot): Snapshot | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof Failure && error.code === "unavailable") return null;
    throw error;
  }
}
