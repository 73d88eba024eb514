import { useState } from "preact/hooks";
import { createAction } from "../live/action.ts";
import { call } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { sayReleased } from "../live/release.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { OfflineNote } from "../parts/offline_note.tsx";
import { ResidentModel } from "./resident_model.tsx";
import { SwapForm } from "./swap_form.tsx";
import { TenantHead } from "./tenant_head.tsx";

/** Ollama: what is resident, and the two things one does with it: switch a model in, or yield the card. */
export function OllamaCard() {
  const { part } = useDashboard();
  const [action] = useState(createAction);
  const ollama = part.ollama.value;
  if (ollama === null) return <section class="panel skeleton" aria-busy="true" />;
  const models = ollama.loaded_models;
  const isPending = action.state.value.kind === "pending";
  const yieldNow = () =>
    action.run("Yielding: unloading, then waiting for the driver", async () => {
      return sayReleased(await call("free-vram", {}));
    });
  return (
    <section class="panel" aria-labelledby="ollama-title">
      <TenantHead id="ollama-title" name="Ollama" tone="ollama" {...ollama}>
        {ollama.online && (
          <span class="faint">{models.length === 0 ? "Nothing resident" : `${models.length} resident`}</span>
        )}
      </TenantHead>
      <div class="panel-body">
        {!ollama.online && (
          <OfflineNote
            check="ollama"
            reason={ollama.reason}
            remedy="Start it with: systemctl start ollama. HyperSwap reconnects by itself; another address is set by --ollama-url."
          />
        )}
        {models.length > 0 && (
          <ul class="models">{models.map((model) => <ResidentModel key={model.name} model={model} />)}</ul>
        )}
        {ollama.online && models.length === 0 && <p class="empty">No model holds VRAM.</p>}
        <SwapForm
          models={ollama.installed_models}
          active={ollama.active_model_name}
          isOnline={ollama.online}
          action={action}
        />
        <div class="buttons">
          <button type="button" class="button" disabled={isPending || !ollama.online} onClick={() => void yieldNow()}>
            Yield VRAM
          </button>
          <span class="faint hint">Unloads every model and waits until the driver has the memory back</span>
        </div>
        <ActionNote action={action} />
      </div>
    </section>
  );
}
