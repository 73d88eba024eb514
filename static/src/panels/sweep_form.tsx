import { useId, useState } from "preact/hooks";
import type { KNOBS } from "../../../lib/model/autotune.ts";
import { createAction } from "../live/action.ts";
import { call, start } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { useOverclock } from "../live/overclock.ts";
import type { Autotune } from "../live/sweep.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { duration } from "../format.ts";

type Knob = typeof KNOBS[number];

const NAMES: Readonly<Record<Knob, string>> = {
  power_limit_w: "Power limit, W",
  lock_core_mhz: "Core clock lock, MHz",
  lock_mem_mhz: "Memory clock lock, MHz",
  core_offset_mhz: "Core clock offset, MHz",
  mem_offset_mhz: "Memory clock offset, MHz",
};

interface Props {
  readonly running: Autotune["running"];
  readonly isRunning: boolean;
}

/** Starts a sweep, or shows the one under way with what is left of it. */
export function SweepForm({ running, isRunning }: Props) {
  const { part } = useDashboard();
  const overclock = useOverclock();
  const [action] = useState(createAction);
  const [knob, setKnob] = useState<Knob>("power_limit_w");
  const [workload, setWorkload] = useState<"ollama" | "comfy">("comfy");
  const [profile, setProfile] = useState("balanced");
  const [range, setRange] = useState<Readonly<Record<"start" | "stop" | "step", string>>>({
    start: "",
    stop: "",
    step: "",
  });
  const [applyBest, setApplyBest] = useState(false);
  if (isRunning) return <UnderWay running={running} />;
  const isBusy = part.comfyui.value?.executing === true;
  const limits = overclock?.levers.find(({ lever }) => lever === knob) ?? null;
  const submit = (event: Event) => {
    event.preventDefault();
    void action.run("Starting the sweep", async () => {
      const given = Object.entries(range).filter(([, text]) => text.trim() !== "");
      const bounds = Object.fromEntries(given.map(([name, text]) => [name, Number(text)]));
      await start("autotune-sweep", { knob, workload, profile, apply_best: applyBest, ...bounds });
      return null;
    });
  };
  return (
    <form class="swap" onSubmit={submit}>
      <Select label="Lever" value={knob} options={NAMES} onPick={(name) => setKnob(name as Knob)} />
      <Select
        label="Workload"
        value={workload}
        options={{ comfy: "SDXL 1024², it/s", ollama: "decode, tok/s" }}
        onPick={(name) => setWorkload(name === "ollama" ? "ollama" : "comfy")}
      />
      <Select
        label="Against profile"
        value={profile}
        options={Object.fromEntries((overclock?.profiles ?? []).map(({ name }) => [name, name]))}
        onPick={setProfile}
      />
      {(["start", "stop", "step"] as const).map((name) => (
        <Bound
          key={name}
          name={name}
          value={range[name]}
          hint={name === "step" ? "auto" : String((name === "start" ? limits?.min : limits?.max) ?? "auto")}
          onInput={(text) => setRange((before) => ({ ...before, [name]: text }))}
        />
      ))}
      <label class="check">
        <input type="checkbox" checked={applyBest} onChange={(event) => setApplyBest(event.currentTarget.checked)} />
        apply the best
      </label>
      <button type="submit" class="button" disabled={isBusy || action.state.value.kind === "pending"}>Sweep</button>
      {isBusy && <span class="faint">ComfyUI is executing: a sweep would measure its work, too</span>}
      <ActionNote action={action} />
    </form>
  );
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly options: Readonly<Record<string, string>>;
  readonly onPick: (name: string) => void;
}

function Select({ label, value, options, onPick }: SelectProps) {
  const id = useId();
  return (
    <label class="field field-grow" for={id}>
      <span class="field-label">{label}</span>
      <select id={id} value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        {Object.entries(options).map(([name, shown]) => <option key={name} value={name}>{shown}</option>)}
      </select>
    </label>
  );
}

interface BoundProps {
  readonly name: string;
  readonly value: string;
  readonly hint: string;
  readonly onInput: (text: string) => void;
}

function Bound({ name, value, hint, onInput }: BoundProps) {
  const id = useId();
  return (
    <label class="field" for={id}>
      <span class="field-label">{name}</span>
      <input
        id={id}
        type="number"
        step="any"
        placeholder={hint}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

function UnderWay({ running }: { readonly running: Props["running"] }) {
  const [action] = useState(createAction);
  const cancel = () =>
    void action.run("Cancelling: the measurement in flight ends first", async () => {
      await call("autotune-cancel", {});
      return { tone: "info", title: "The sweep has ended, and the card is as it was", detail: null };
    });
  const share = running === null || running.planned === 0 ? 0 : running.measured / running.planned;
  return (
    <div class="swap">
      <div class="field field-grow">
        <span class="field-label">
          {running === null ? "A sweep is under way" : `${NAMES[running.knob]}: ${running.phase}`}
          {running?.eta_ms != null && `, ${duration(running.eta_ms)} left at most`}
        </span>
        <progress class="sweep-progress" max={1} value={share} />
      </div>
      <button type="button" class="button" onClick={cancel} disabled={action.state.value.kind === "pending"}>
        Cancel
      </button>
      <ActionNote action={action} />
    </div>
  );
}
