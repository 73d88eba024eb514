/** A folder of its own, gone at the end of the block. */
export function tempFolder(): Disposable & { readonly path: string } {
  const path = Deno.makeTempDirSync({ prefix: "hyperswap_record_" });
  return { path, [Symbol.dispose]: () => Deno.removeSync(path, { recursive: true }) };
}
