export interface Share {
  readonly key: string;
  readonly label: string;
  /** GiB; null = unknown, which takes no room in the bar. */
  readonly gb: number | null;
}

export interface ShareBarProps {
  readonly shares: readonly Share[];
  readonly totalGb: number;
  readonly label: string;
  readonly slim?: boolean;
}

/** A narrower segment has no room for its name. */
const NAMED_FROM_PCT = 13;
const FIGURE_FROM_PCT = 6;

/** A whole split into its shares, to scale. Screen readers get the sentence, and the legend beside it has every figure. */
export function ShareBar({ shares, totalGb, label, slim = false }: ShareBarProps) {
  const known = shares.filter((share): share is Share & { gb: number } => share.gb !== null && share.gb > 0);
  const sentence = known.map((share) => `${share.label} ${share.gb.toFixed(1)} GiB`).join(", ");
  return (
    <div class={slim ? "bar bar-slim" : "bar"} role="img" aria-label={`${label}: ${sentence}`}>
      {known.map(({ key, label: name, gb }) => {
        const pct = totalGb > 0 ? Math.min(100, (gb / totalGb) * 100) : 0;
        return (
          <div key={key} class={`seg seg-${key}`} style={{ width: `${pct.toFixed(3)}%` }} aria-hidden="true">
            {!slim && pct >= FIGURE_FROM_PCT && (
              <span class="seg-text">
                {pct >= NAMED_FROM_PCT && <span class="seg-name">{name}</span>}
                <span class="seg-figure">{gb.toFixed(1)}</span>
              </span>
            )}
          </div>
        );
      })}
    </div>
  );
}
