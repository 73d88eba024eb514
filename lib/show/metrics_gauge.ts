import { Gauge, type Registry } from "prom-client";

/** What a figure is set by. Unknown figures are left out: Prometheus then shows a gap, not a zero. */
export type SetFigure = (value: number | null | undefined, labels?: Readonly<Record<string, string>>) => void;

/** Makes a gauge in the registry and answers its setter. */
export function gauge(registry: Registry, name: string, help: string, labelNames: readonly string[] = []) {
  const made = new Gauge({ name: `hyperswap_${name}`, help, labelNames: [...labelNames], registers: [registry] });
  const set: SetFigure = (value, labels = {}) => {
    if (typeof value === "number" && Number.isFinite(value)) made.set(labels, value);
  };
  return { set, clear: () => made.reset(), forget: () => made.remove() };
}
