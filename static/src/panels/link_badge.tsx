import { useDashboard } from "../live/dashboard.ts";
import { span } from "../format.ts";

/** Data this old, although frames arrive, is not live. */
const BEHIND_MS = 4_000;

/** Whether what is shown is current, and if not, how old it is and why. */
export function LinkBadge() {
  const { link, ageMs } = useDashboard();
  const state = link.value;
  const age = ageMs.value;
  if (state.kind === "live" && (age === null || age < BEHIND_MS)) {
    return (
      <span class="badge badge-live" role="status" title="Frames arrive once a second">
        <span class="dot" aria-hidden="true" />Live
      </span>
    );
  }
  const since = age === null ? "no data yet" : `data ${span(age)} old`;
  if (state.kind === "connecting") return <span class="badge" role="status">Connecting</span>;
  const reason = state.kind === "reconnecting" ? state.reason : "Frames arrive late";
  return (
    <span class="badge badge-warn" role="status" title={reason}>
      <span class="dot" aria-hidden="true" />
      {state.kind === "reconnecting" ? "Reconnecting" : "Behind"}
      <span class="badge-sub">{since}</span>
    </span>
  );
}
