/** Events of the record as a table. */
import type { Operations } from "../operations/registry.ts";
import { clip, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Events = Operations["history"]["output"]["events"];

/** What the other columns take beside WHAT. */
const BESIDE_WHAT = 66;
const WHAT_LEAST = 16;

/** Newest first, one line each; cut to `columns` where they are given. */
export function renderEvents(events: Events, style: Style, columns = Infinity): string {
  const rows = events.map((event) => eventRow(event, Math.max(WHAT_LEAST, columns - BESIDE_WHAT)));
  return table(["AT", "KIND", "WHAT", "MS", "FREED", "MARGIN"], rows, {
    style,
    empty: "Nothing has happened yet",
  });
}

function eventRow(event: Events[number], whatColumns: number): string[] {
  const { models, model, outcome, message } = event;
  const named = Array.isArray(models) ? models.join(", ") : model;
  const what = [outcome ?? event["class"], named].filter((part) => part !== undefined && part !== null && part !== "");
  return [
    clock(event.at),
    event.kind,
    clip(what.length > 0 ? what.join(" ") : String(message ?? "–"), whatColumns),
    quantity(event["confirm_ms"] ?? event["load_ms"] ?? event["request_ms"], "", 0),
    quantity(event["freed_gb"], "GiB", 2),
    quantity(event["margin_ms"], "ms", 0),
  ];
}

/** Time of day of an ISO time, UTC as everywhere. */
export function clock(iso: string): string {
  return iso.slice(0, 19).replace("T", " ");
}
