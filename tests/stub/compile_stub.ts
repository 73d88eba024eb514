/** Compiles the stub libnvidia-ml.so.1 and hands out private copies of it, with the strings that make it misbehave. */

import { removeStubCard } from "./stub_card.ts";

/** Which symbols the stub leaves out: see nvml_stub.c. */
export type StubVariant = "full" | "old" | "bare" | "noInit";

const DEFINES: Readonly<Record<StubVariant, readonly string[]>> = {
  full: [],
  old: ["-DSTUB_OLD"],
  bare: ["-DSTUB_BARE"],
  noInit: ["-DSTUB_NO_INIT"],
};

const CONTROLS = {
  stub_answer: { parameters: ["buffer", "i32", "i32"], result: "void" },
  stub_lag: { parameters: ["buffer", "i32"], result: "void" },
  stub_hold: { parameters: ["buffer", "i32"], result: "void" },
  stub_calls: { parameters: ["buffer"], result: "i32" },
  stub_set: { parameters: ["buffer", "u64"], result: "void" },
  stub_process: { parameters: ["i32", "i32", "u32", "u64"], result: "void" },
  stub_utilization: { parameters: ["i32", "u32", "u64", "u32", "u32"], result: "void" },
  stub_versions: { parameters: ["buffer", "buffer"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

const C = (text: string) => new TextEncoder().encode(`${text}\0`);

/** A loaded stub and what a test can tell it. */
export class Stub implements Disposable {
  readonly #library: Deno.DynamicLibrary<typeof CONTROLS>;
  constructor(readonly path: string) {
    this.#library = Deno.dlopen(path, CONTROLS);
  }
  get #c() {
    return this.#library.symbols;
  }
  /** Makes a call answer `code`; `times` calls long, or for ever. */
  answer(symbol: string, code: number, times = -1): void {
    this.#c.stub_answer(C(symbol), code, times);
  }
  /** Makes a call take `ms` longer. */
  lag(symbol: string, ms: number): void {
    this.#c.stub_lag(C(symbol), ms);
  }
  /** Makes a call block until `release`. */
  hold(symbol: string): void {
    this.#c.stub_hold(C(symbol), 1);
  }
  release(symbol: string): void {
    this.#c.stub_hold(C(symbol), 0);
  }
  /** How often a call was made so far, refused ones included. */
  calls(symbol: string): number {
    return this.#c.stub_calls(C(symbol));
  }
  /** Sets a figure by its key in the C source. */
  set(key: string, value: number | bigint): void {
    this.#c.stub_set(C(key), BigInt(value));
  }
  /** The process list of a kind; `null` bytes = the driver's "not available". */
  processes(kind: "compute" | "graphics", rows: readonly (readonly [pid: number, bytes: number | null])[]): void {
    const kindNumber = kind === "compute" ? 0 : 1;
    for (const [slot, [pid, bytes]] of rows.entries()) {
      this.#c.stub_process(kindNumber, slot, pid, bytes === null ? 0xFFFF_FFFF_FFFF_FFFFn : BigInt(bytes));
    }
    this.#c.stub_process(kindNumber, rows.length, 0, 0n);
  }
  /** Rows of the process utilisation ring; `rest` stands for memory, encoder and decoder. */
  utilization(rows: readonly { pid: number; atUs: number; sm: number; rest?: number }[]): void {
    for (const [slot, row] of rows.entries()) {
      this.#c.stub_utilization(slot, row.pid, BigInt(row.atUs), row.sm, row.rest ?? 0);
    }
    this.#c.stub_utilization(rows.length, 0, 0n, 0, 0);
  }
  versions(driver: string, nvml: string): void {
    this.#c.stub_versions(C(driver), C(nvml));
  }
  [Symbol.dispose](): void {
    this.#library.close();
    Deno.removeSync(this.path);
    removeStubCard(this.path);
  }
}

/** False where the stub can't be compiled. */
export const hasCompiler = findCompiler();

/** A test with a stub of its own; skipped where there is no gcc. */
export function stubTest(name: string, run: (stub: Stub) => void | Promise<void>, variant: StubVariant = "full"): void {
  Deno.test({
    name,
    ignore: !hasCompiler,
    fn: async () => {
      using stub = await openStub(variant);
      await run(stub);
    },
  });
}

const compiled = new Map<StubVariant, Promise<Uint8Array>>();

/** A stub that its caller disposes of. */
export async function openStub(variant: StubVariant): Promise<Stub> {
  const bytes = compiled.get(variant) ?? compile(variant);
  compiled.set(variant, bytes);
  // The loader takes two files for one library only by device and inode: a copy has a state of its own.
  const path = await Deno.makeTempFile({ prefix: "nvml-stub-", suffix: ".so.1" });
  await Deno.writeFile(path, await bytes);
  return new Stub(path);
}

function findCompiler(): boolean {
  try {
    return new Deno.Command("gcc", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log("skipped: no gcc here to compile the stub libnvidia-ml.so.1 with");
    return false;
  }
}

async function compile(variant: StubVariant): Promise<Uint8Array> {
  const folder = await Deno.makeTempDir({ prefix: "nvml-stub-" });
  try {
    const output = `${folder}/libnvidia-ml.so.1`;
    const source = new URL("nvml_stub.c", import.meta.url).pathname;
    const args = ["-shared", "-fPIC", "-O1", "-pthread", "-ldl", ...DEFINES[variant], "-o", output, source];
    const result = await new Deno.Command("gcc", { args }).output();
    if (!result.success) throw new Error(new TextDecoder().decode(result.stderr));
    return await Deno.readFile(output);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
