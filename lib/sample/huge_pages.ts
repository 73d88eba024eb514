/** The size of this kernel's huge pages. */
import type { Libc } from "../../ffi/libc.ts";
import type { Bytes } from "../model/units.ts";
import { unlessGone } from "./vanishing.ts";

/** Null where it has none. */
export function hugePageBytes(libc: Libc, { sysRoot }: { readonly sysRoot: string }): Bytes | null {
  const text = unlessGone(() => libc.readText(`${sysRoot}/kernel/mm/transparent_hugepage/hpage_pmd_size`));
  const bytes = Number(text ?? "0");
  return bytes > 0 ? bytes : null;
}
