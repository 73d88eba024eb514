import { useState } from "preact/hooks";
import type { Stats } from "../../../lib/operations/stats.ts";
import { createAction } from "../live/action.ts";
import { call } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { sayReleased } from "../live/release.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { OfflineNote } from "../parts/offline_note.tsx";
import { Unknown, Value } from "../parts/value.tsx";
import { span } from "../format.ts";
import { TenantHead } from "./tenant_head.tsx";

/** ComfyUI: what it does, what waits, what it holds, and the purge. */
export function ComfyCard() {
  const { part } = useDashboard();
  const [action] = useState(createAction);
  const comfy = part.comfyui.value;
  if (comfy === null) return <section class="panel skeleton" aria-busy="true" />;
  const isPending = action.state.value.kind === "pending";
  const purge = () =>
    action.run("Purging: asking ComfyUI, then waiting for its memory to fall", async () => {
      return sayReleased(await call("comfy-free", {}));
    });
  return (
    <section class="panel" aria-labelledby="comfy-title">
      <TenantHead id="comfy-title" name="ComfyUI" tone="comfy" {...comfy}>
        {comfy.online && <Activity comfy={comfy} />}
      </TenantHead>
      <div class="panel-body">
        {!comfy.online && (
          <OfflineNote
            check="comfyui"
            reason={comfy.reason}
            remedy="Start ComfyUI. HyperSwap reconnects by itself; another address is set by --comfyui-url."
          />
        )}
        {comfy.online && <Work comfy={comfy} />}
        <div class="buttons">
          <button type="button" class="button" disabled={isPending || !comfy.online} onClick={() => void purge()}>
            Purge VRAM
          </button>
          <span class="faint hint">Drops its models and waits for the fall; its CUDA context (~0.8 GiB) stays</span>
        </div>
        <ActionNote action={action} />
      </div>
    </section>
  );
}

function Activity({ comfy }: { readonly comfy: Stats["comfyui"] }) {
  const { nowMs } = useDashboard();
  if (comfy.executing === null) return <Unknown why="ComfyUI's queue has not been read yet" />;
  if (comfy.executing) return <span class="chip chip-comfy">Executing</span>;
  return (
    <span class="faint">
      Idle{comfy.idle_since !== null && ` for ${span(nowMs.value - Date.parse(comfy.idle_since))}`}
    </span>
  );
}

function Work({ comfy }: { readonly comfy: Stats["comfyui"] }) {
  // A node without steps reports 0 of 1: it works, but how far it is isn't known.
  const progress = comfy.progress !== null && comfy.progress.max > 1 ? comfy.progress : null;
  const donePct = progress === null ? null : (progress.value / progress.max) * 100;
  return (
    <>
      <dl class="facts">
        <div>
          <dt>Holds</dt>
          <dd>
            <Value of={comfy.vram_gb} digits={1} unit="GiB" why="The driver gives no figure for its processes" />
          </dd>
        </div>
        <div>
          <dt>Queue</dt>
          <dd>
            <Value of={comfy.queue_remaining} why="Neither the status broadcast nor /queue has answered yet" />
          </dd>
        </div>
        <div>
          <dt>Socket</dt>
          <dd class={comfy.socket === "open" ? "" : "late"}>{comfy.socket}</dd>
        </div>
      </dl>
      {comfy.executing === true && (
        <div class="progress">
          <div
            class={donePct === null ? "meter meter-unknown" : "meter"}
            role="progressbar"
            aria-label="ComfyUI's running prompt"
            {...(donePct === null
              ? {}
              : { "aria-valuenow": Math.round(donePct), "aria-valuemin": 0, "aria-valuemax": 100 })}
          >
            <span class="meter-fill seg-comfy" style={{ width: `${(donePct ?? 100).toFixed(1)}%` }} />
          </div>
          <span class="faint progress-text">
            {progress === null ? "no steps to count" : `step ${progress.value} of ${progress.max}`}
          </span>
        </div>
      )}
    </>
  );
}
