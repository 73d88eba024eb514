export interface OfflineNoteProps {
  readonly reason: string | null;
  readonly remedy: string;
  readonly url: string;
}

/** Why a tenant doesn't answer and what helps. */
export function OfflineNote({ reason, remedy, url }: OfflineNoteProps) {
  return (
    <div class="callout callout-bad">
      <p class="callout-title">{reason ?? "No answer"}</p>
      <p class="muted mono">{url}</p>
      <p class="muted">{remedy}</p>
    </div>
  );
}
