/** Hand-offs in the chart: a hairline where one was confirmed, with a flag at the top; late ones in the warning colour. */
import { computed } from "@preact/signals";
import type uPlot from "uplot";
import type { Palette } from "./chart_palette.ts";
import type { Dashboard } from "./dashboard.ts";
import { readEvent } from "./history_event.ts";

const FLAG_PX = 4;

export function handOffMarks(dashboard: Dashboard, palette: Palette): (plot: uPlot) => void {
  // Read once per change of the record, not once per drawing.
  const handOffs = computed(() =>
    (dashboard.part.history.value ?? []).map(readEvent).filter(({ kind }) => kind === "yield" || kind === "purge")
  );
  return (plot) => {
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = scale;
    for (const event of handOffs.peek()) {
      const x = Math.round(plot.valToPos(event.atMs / 1_000, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const colour = event.isLate ? palette.warn : palette.text;
      ctx.strokeStyle = colour;
      ctx.fillStyle = colour;
      ctx.globalAlpha = event.isLate ? 0.9 : 0.45;
      ctx.beginPath();
      ctx.setLineDash([2 * scale, 3 * scale]);
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
      const size = FLAG_PX * scale;
      // Down for a yield of Ollama, up for a purge of ComfyUI: told apart without colour.
      const tip = event.kind === "yield" ? bbox.top : bbox.top - 2 * size;
      const base = event.kind === "yield" ? bbox.top - 2 * size : bbox.top;
      ctx.moveTo(x, tip);
      ctx.lineTo(x - size, base);
      ctx.lineTo(x + size, base);
      ctx.fill();
    }
    ctx.restore();
  };
}
