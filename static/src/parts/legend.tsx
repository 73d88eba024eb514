import type { Share } from "./share_bar.tsx";
import { Gib } from "./gib.tsx";

export interface LegendProps {
  readonly items: readonly (Share & { readonly note: string })[];
  readonly why?: string | null;
}

/** Every share with its figure, in the bar's order. */
export function Legend({ items, why }: LegendProps) {
  return (
    <dl class="legend">
      {items.map(({ key, label, gb, note }) => (
        <div key={key} class="legend-item" title={note}>
          <dt>
            <span class={`swatch seg-${key}`} aria-hidden="true" />
            {label}
          </dt>
          <dd>
            <Gib of={gb} why={why} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
