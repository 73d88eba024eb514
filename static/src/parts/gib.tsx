import { Value } from "./value.tsx";

export interface GibProps {
  readonly of: number | null | undefined;
  readonly digits?: 1 | 2;
  readonly why?: string | null | undefined;
}

const MIB_PER_GIB = 1_024;

/** An amount of memory in GiB; what would round to nothing is shown in MiB, since something is there. */
export function Gib({ of, digits = 1, why }: GibProps) {
  const isTiny = typeof of === "number" && of > 0 && of < (digits === 1 ? 0.05 : 0.005);
  return isTiny ? <Value of={of * MIB_PER_GIB} unit="MiB" /> : <Value of={of} digits={digits} unit="GiB" why={why} />;
}
