import { useId, useState } from "preact/hooks";
import type { Action } from "../live/action.ts";
import { useDashboard } from "../live/dashboard.ts";
import { switchModel } from "../live/switch_model.ts";
import type { Stats } from "../../../lib/operations/stats.ts";

const KEEP_ALIVE = [
  { value: "5m", label: "5 min" },
  { value: "30m", label: "30 min" },
  { value: "2h", label: "2 h" },
  // Ollama reads a negative duration as "for ever"; a bare -1 isn't a duration to it.
  { value: "-1m", label: "for ever" },
];

export interface SwapFormProps {
  readonly models: Stats["ollama"]["installed_models"];
  readonly active: string | null;
  readonly isOnline: boolean;
  readonly action: Action;
}

/** Picks an installed model and makes it the resident one. */
export function SwapForm({ models, active, isOnline, action }: SwapFormProps) {
  const dashboard = useDashboard();
  const id = useId();
  const [picked, pick] = useState<string | null>(null);
  const [keepAlive, keep] = useState("30m");
  const local = models.filter(({ is_remote }) => !is_remote);
  const candidates = [picked, local.find(({ name }) => name !== active)?.name, active];
  const model = candidates.find((name) => local.some((installed) => installed.name === name)) ?? "";
  const isPending = action.state.value.kind === "pending";
  const submit = (event: Event) => {
    event.preventDefault();
    void action.run(`Switching to ${model}`, () => switchModel(dashboard, { model, keepAlive }));
  };
  return (
    <form class="swap" onSubmit={submit}>
      <label class="field field-grow" for={`${id}-model`}>
        <span class="field-label">Switch to</span>
        <select
          id={`${id}-model`}
          value={model}
          disabled={local.length === 0}
          onChange={(event) => pick(event.currentTarget.value)}
        >
          {local.length === 0 && <option value="">{isOnline ? "No model installed" : "Ollama is offline"}</option>}
          {local.map(({ name, size_gb }) => <option key={name} value={name}>{name} · {size_gb.toFixed(1)} GB</option>)}
        </select>
      </label>
      <label class="field" for={`${id}-keep`}>
        <span class="field-label">Keep</span>
        <select id={`${id}-keep`} value={keepAlive} onChange={(event) => keep(event.currentTarget.value)}>
          {KEEP_ALIVE.map(({ value, label }) => <option key={value} value={value}>{label}</option>)}
        </select>
      </label>
      <button type="submit" class="button button-primary" disabled={isPending || !isOnline || model === ""}>
        Switch
      </button>
    </form>
  );
}
