import { useState } from "preact/hooks";
import { useDashboard } from "../live/dashboard.ts";
import { ExportLinks } from "../parts/export_links.tsx";
import { readEvent } from "../live/history_event.ts";
import { TimelineRow } from "./timeline_row.tsx";

/** Kinds of event that move memory, or say why it didn't move; the others are there on request. */
const MOVES: ReadonlySet<string> = new Set(["yield", "purge", "swap", "fault", "arbitration"]);

/** Everything that moved memory, newest first; each row opens the reasons behind it. */
export function TimelinePanel() {
  const { part, openWhy } = useDashboard();
  const [isWhole, showWhole] = useState(false);
  const all = (part.history.value ?? []).map(readEvent);
  const events = all.filter(({ kind }) => isWhole || MOVES.has(kind));
  const others = all.filter(({ kind }) => !MOVES.has(kind)).length;
  return (
    <section class="panel area-timeline" aria-labelledby="timeline-title">
      <div class="panel-head">
        <h2 id="timeline-title">Hand-offs, purges and swaps</h2>
        <span class="end">
          <ExportLinks what="events" />
          {others > 0 && (
            <button
              type="button"
              class="button button-small button-toggle"
              aria-pressed={isWhole}
              title="Profiles, warming, the governor and the service itself"
              onClick={() => showWhole(!isWhole)}
            >
              {others} other {others === 1 ? "event" : "events"}
            </button>
          )}
          <button
            type="button"
            class="button button-small"
            onClick={() => openWhy({ atMs: null, title: "Latest decisions" })}
          >
            Why log
          </button>
        </span>
      </div>
      {events.length === 0
        ? <p class="panel-body empty">Nothing has moved yet. Each hand-off will appear here with its times.</p>
        : (
          <div class="timeline-scroll" tabIndex={0} role="group" aria-labelledby="timeline-title">
            <table class="timeline">
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">Event</th>
                  <th scope="col" class="num" title="From the start to the last reply: a receipt, nothing more">
                    Request
                  </th>
                  <th scope="col" class="num" title="Until the driver had the memory back; for a swap, the load">
                    Confirmed
                  </th>
                  <th
                    scope="col"
                    class="num"
                    title="The winner's first allocation, less our confirmation; negative is late"
                  >
                    Margin
                  </th>
                  <th scope="col" class="num" title="GiB that the driver got back">Freed</th>
                  <th scope="col" class="num" title="Model bytes over load time, GB (10⁹ bytes) a second">Speed</th>
                  <th scope="col">Result</th>
                </tr>
              </thead>
              <tbody>{events.map((event) => <TimelineRow key={event.id} event={event} onWhy={openWhy} />)}</tbody>
            </table>
          </div>
        )}
    </section>
  );
}
