import { bucketLabel } from "../buckets.ts";
import type { GpuProcess } from "../live/wire.ts";
import { Gib } from "../parts/gib.tsx";
import { Value } from "../parts/value.tsx";

/** Everyone on the card, largest first, each with the reason for its bucket. */
export function ProcessTable({ processes }: { readonly processes: readonly GpuProcess[] }) {
  if (processes.length === 0) return <p class="empty">No process is on the card.</p>;
  const sorted = processes.toSorted((a, b) => (b.vram_gb ?? -1) - (a.vram_gb ?? -1));
  return (
    <table class="processes">
      <caption class="visually-hidden">Processes on the card</caption>
      <thead>
        <tr>
          <th scope="col">Process</th>
          <th scope="col" class="num">PID</th>
          <th scope="col" class="num">SM</th>
          <th scope="col" class="num">VRAM</th>
        </tr>
      </thead>
      <tbody>
        {sorted.map((process) => (
          <tr key={process.pid}>
            <td>
              <div class="process" title={`${bucketLabel(process.bucket)}: ${process.evidence}`}>
                <span class={`swatch seg-${process.bucket}`} aria-hidden="true" />
                <span class="process-name">{process.name}</span>
                <span class="visually-hidden">{bucketLabel(process.bucket)}</span>
                <span class="process-why">{process.evidence}</span>
              </div>
            </td>
            <td class="num faint">{process.pid}</td>
            <td class="num">
              <Value of={process.sm_pct} unit="%" why="The driver doesn't measure it per process here" />
            </td>
            <td class="num">
              <Gib of={process.vram_gb} digits={2} why="The driver doesn't say what this process holds" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
