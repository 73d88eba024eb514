import type { WhyRequest } from "../live/dashboard.ts";
import type { HistoryEvent } from "../live/history_event.ts";
import { Unknown } from "../parts/value.tsx";
import { clockTime, duration, signedMs, words } from "../format.ts";

const KINDS: Readonly<Record<string, { readonly label: string; readonly tone: string }>> = {
  yield: { label: "Yield", tone: "ollama" },
  purge: { label: "Purge", tone: "comfy" },
  swap: { label: "Swap", tone: "ollama" },
  fault: { label: "Fault", tone: "bad" },
  arbitration: { label: "Arbitration", tone: "plain" },
  profile: { label: "Profile", tone: "plain" },
  governor: { label: "Governor", tone: "plain" },
  autotune: { label: "Autotune", tone: "plain" },
  warm: { label: "Warm", tone: "plain" },
  benchmark: { label: "Benchmark", tone: "plain" },
  service: { label: "Service", tone: "plain" },
};

const RESULTS: Readonly<Record<string, { readonly label: string; readonly tone: string; readonly note: string }>> = {
  released: { label: "released", tone: "ok", note: "The driver gave the memory back" },
  nothing_loaded: { label: "nothing loaded", tone: "plain", note: "There was nothing to unload" },
  unconfirmed: { label: "unconfirmed", tone: "warn", note: "Asked for, but the driver can't confirm it here" },
  unreachable: { label: "unreachable", tone: "bad", note: "The server did not answer" },
  remote: { label: "remote", tone: "warn", note: "On another host: unloading there frees nothing here" },
  busy: { label: "busy", tone: "warn", note: "Still at work" },
  fault: { label: "fault", tone: "bad", note: "An idle runner kept its memory" },
  timeout: { label: "timeout", tone: "bad", note: "Not back within the ceiling" },
  ram_hit: { label: "RAM cache hit", tone: "ok", note: "Loaded from host memory" },
  partial: { label: "partial cache", tone: "warn", note: "Partly read from disk" },
  cold: { label: "cold disk load", tone: "warn", note: "Read from disk" },
  unclassified: { label: "unclassified", tone: "plain", note: "Too little is known to say where it came from" },
};

export interface TimelineRowProps {
  readonly event: HistoryEvent;
  readonly onWhy: (request: WhyRequest) => void;
}

export function TimelineRow({ event, onWhy }: TimelineRowProps) {
  const kind = KINDS[event.kind] ?? { label: words(event.kind), tone: "plain" };
  const when = new Date(event.atMs);
  const open = () => onWhy({ atMs: event.atMs, title: `${kind.label} at ${clockTime(when)}` });
  const isWrong = event.isLate || event.consequence !== null;
  return (
    <>
      <tr class={isWrong ? "row row-late" : "row"} onClick={open}>
        <td class="cell-time">
          <time dateTime={when.toISOString()} title={when.toLocaleString()}>{clockTime(when)}</time>
        </td>
        <td class="cell-event">
          <button
            type="button"
            class="row-button"
            aria-label={`Why: ${kind.label} at ${clockTime(when)}`}
            onClick={open}
          >
            <span class={`kind kind-${kind.tone}`}>{kind.label}</span>
          </button>
          <span class="cell-models">{subjectOf(event)}</span>
          {event.cause !== null && !event.isGated && <span class="cell-cause">{words(event.cause)}</span>}
          {event.isGated && (
            <span class="chip chip-ok cell-gated" title={gateNote(event)}>
              gated
            </span>
          )}
        </td>
        <td class="num" data-label="request">{cell(event, "requestMs", duration)}</td>
        <td class="num" data-label={event.kind === "swap" ? "load" : "confirmed"}>
          {cell(event, event.kind === "swap" ? "loadMs" : "confirmMs", duration)}
        </td>
        <td class={event.isLate ? "num late" : "num"} data-label="margin">{cell(event, "marginMs", signedMs)}</td>
        <td class="num" data-label="freed">{cell(event, "freedGb", (gb) => `${gb.toFixed(1)} GiB`)}</td>
        <td class="num" data-label="speed">{cell(event, "gbPerS", (rate) => `${rate.toFixed(2)} GB/s`)}</td>
        <td class="cell-result">
          {[event.outcome, event.class].map((name) =>
            name !== null && <Chip key={name} name={name} note={event.message} />
          )}
        </td>
      </tr>
      {isWrong && (
        <tr class="row-late row-consequence" onClick={open}>
          <td />
          <td colSpan={7} title={event.remedy ?? undefined}>
            {event.consequence ?? "ComfyUI allocated before the memory was back"}
          </td>
        </tr>
      )}
    </>
  );
}

function gateNote({ heldMs }: HistoryEvent): string {
  const held = "Whoever asked for it was held at the gate until the memory was back";
  return heldMs === null ? held : `${held}: ${duration(heldMs)}`;
}

/** Fields that a kind of event has; the others stay blank, since there is nothing to know. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  yield: ["requestMs", "confirmMs", "marginMs", "freedGb"],
  purge: ["requestMs", "confirmMs", "freedGb"],
  swap: ["loadMs", "gbPerS"],
};

const WHY_UNKNOWN: Readonly<Record<string, string>> = {
  requestMs: "Nothing was asked",
  confirmMs: "The driver did not confirm it",
  marginMs: "The winner's first allocation is awaited",
  freedGb: "The driver doesn't say",
  loadMs: "The load was not timed",
  gbPerS: "Its size or its time is not known",
};

function cell(
  event: HistoryEvent,
  field: "requestMs" | "confirmMs" | "marginMs" | "freedGb" | "loadMs" | "gbPerS",
  format: (value: number) => string,
) {
  const value = event[field];
  if (value !== null) return format(value);
  if (event.outcome === "nothing_loaded") return null;
  return FIELDS[event.kind]?.includes(field) === true
    ? <Unknown why={field === "marginMs" && event.marginReason !== null ? event.marginReason : WHY_UNKNOWN[field]} />
    : null;
}

function subjectOf(event: HistoryEvent): string {
  if (event.models.length > 0) return event.models.join(", ");
  if (event.kind === "purge") return "ComfyUI";
  return event.message ?? "";
}

/** The event's own words explain its result; the table's are for records without any. */
function Chip({ name, note }: { readonly name: string; readonly note: string | null }) {
  const result = RESULTS[name] ?? { label: words(name), tone: "plain", note: name };
  return <span class={`chip chip-${result.tone}`} title={note ?? result.note}>{result.label}</span>;
}
