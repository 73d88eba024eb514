/** Writes a file so that it is either the old one or the new one, whatever happens meanwhile. */

/** A link is followed: what it leads to is replaced, and the link stays. An existing file keeps its mode. */
export function replaceFile(path: string, content: string | Uint8Array, options: { readonly mode: number }): void {
  const { target, mode } = present(path) ?? { target: path, mode: options.mode };
  const beside = `${target}.${Deno.pid}.tmp`;
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  try {
    Deno.writeFileSync(beside, bytes, { createNew: true, mode });
    // The umask takes bits from what a new file is given.
    Deno.chmodSync(beside, mode);
    Deno.renameSync(beside, target);
  } catch (error) {
    try {
      Deno.removeSync(beside);
    } catch (gone) {
      if (!(gone instanceof Deno.errors.NotFound || gone instanceof Deno.errors.PermissionDenied)) throw gone;
    }
    throw error;
  }
}

function present(path: string): { readonly target: string; readonly mode: number } | null {
  try {
    const target = Deno.realPathSync(path);
    const { mode } = Deno.statSync(target);
    return { target, mode: (mode ?? 0o600) & 0o777 };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
