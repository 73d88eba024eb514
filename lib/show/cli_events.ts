/** Events of the record as a table. */
import type { Operations } from "../operations/registry.ts";
import { quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Events = Operations["history"]["output"]["events"];

/** Newest first, one line each. */
export function renderEvents(events: Events, style: Style): string {
  return table(["AT", "KIND", "WHAT", "MS", "FREED", "MARGIN"], events.map(eventRow), {
    style,
    empty: "Nothing has happened yet",
  });
}

function eventRow(event: Events[number]): string[] {
  const { models, model, outcome, message } = event;
  const named = Array.isArray(models) ? models.join(", ") : model;
  const what = [outcome ?? event["class"], named].filter((part) => part !== undefined && part !== null && part !== "");
  return [
    clock(event.at),
    event.kind,
    what.length > 0 ? what.join(" ") : String(message ?? "–"),
    quantity(event["confirm_ms"] ?? event["load_ms"] ?? event["request_ms"], "", 0),
    quantity(event["freed_gb"], "GiB", 2),
    quantity(event["margin_ms"], "ms", 0),
  ];
}

/** Time of day of an ISO time, UTC as everywhere. */
export function clock(iso: string): string {
  return iso.slice(0, 19).replace("T", " ");
}
