/** An event of the record in wire form: `{id, at, kind, …}`, the rest as its recorder named it. */
import * as z from "zod";
import { HISTORY_KINDS } from "../model/history.ts";
import type { HistoryItem } from "../model/history.ts";
import { toIso } from "../model/units.ts";
import { time } from "./quantities.ts";

export const HistoryItemWire = z.looseObject({
  id: z.int().describe("goes up with every event"),
  at: time("when it ended"),
  kind: z.enum(HISTORY_KINDS).describe("says which further fields the event has"),
});
export type HistoryItemView = z.output<typeof HistoryItemWire>;

/** Own fields win: no recorder can rename an event. */
export function viewHistoryItem(item: HistoryItem): HistoryItemView {
  return { ...item.fields, id: item.id, at: toIso(item.atMs), kind: item.kind };
}
