import { useDashboard } from "../live/dashboard.ts";

export interface OfflineNoteProps {
  /** Its name among the health checks. */
  readonly check: "ollama" | "comfyui";
  readonly reason: string | null;
  /** What helps, as long as health hasn't said it. */
  readonly remedy: string;
}

/** Why a tenant doesn't answer and what helps, in the words of health where it has any. */
export function OfflineNote({ check, reason, remedy }: OfflineNoteProps) {
  const { health } = useDashboard();
  const found = health.value?.checks.find(({ name }) => name === check);
  return (
    <div class="callout callout-bad">
      <p class="callout-title">{reason ?? found?.finding ?? "No answer"}</p>
      <p class="muted">{found?.remedy ?? remedy}</p>
    </div>
  );
}
