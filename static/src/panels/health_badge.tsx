import { useId, useRef, useState } from "preact/hooks";
import { useDashboard } from "../live/dashboard.ts";
import type { HealthCheck } from "../live/wire.ts";
import { useDismissal } from "../parts/use_dismissal.ts";
import { count, words } from "../format.ts";

/** One word while all is well. When something is wrong it opens: what was found, what that breaks, how to fix it. */
export function HealthBadge() {
  const { health, healthError } = useDashboard();
  const [isOpen, open] = useState(false);
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  useDismissal(box, isOpen, () => open(false));
  const report = health.value;
  if (report === null) {
    return (
      <span class="badge" title={healthError.value ?? undefined}>
        {healthError.value === null ? "Health …" : "Health unknown"}
      </span>
    );
  }
  const wrong = report.checks.filter(({ state }) => state === "broken" || state === "degraded");
  if (wrong.length === 0) {
    const fine = report.checks.filter(({ state }) => state === "ok").length;
    return (
      <span class="badge badge-ok" title={`${count(fine, "check")} passed`}>
        <span class="dot" aria-hidden="true" />Healthy
      </span>
    );
  }
  const isBroken = wrong.some(({ state }) => state === "broken");
  return (
    <div class="health" ref={box}>
      <button
        type="button"
        class={`badge badge-button ${isBroken ? "badge-bad" : "badge-warn"}`}
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => open(!isOpen)}
      >
        <span class="dot" aria-hidden="true" />
        {count(wrong.length, "problem")}
        <span class="chevron" aria-hidden="true" />
      </button>
      <ul id={id} class="health-list" hidden={!isOpen}>
        {wrong.map((check) => <Problem key={check.name} check={check} />)}
      </ul>
    </div>
  );
}

function Problem({ check }: { readonly check: HealthCheck }) {
  return (
    <li class={`problem problem-${check.state}`}>
      <h3>
        {words(check.name)} <span class="problem-state">{check.state}</span>
      </h3>
      <p>{check.finding}</p>
      {check.breaks !== null && (
        <p class="muted">
          <b>Breaks</b> {check.breaks}
        </p>
      )}
      {check.remedy !== null && (
        <p class="muted">
          <b>Fix</b> {check.remedy}
        </p>
      )}
    </li>
  );
}
