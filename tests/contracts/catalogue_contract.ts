import assert from "node:assert/strict";
import type { Catalogue, Files } from "../../lib/model/catalogue.ts";
import type { Proc } from "../../lib/model/ports.ts";
import { type CatalogueHints, watchCatalogue } from "../../lib/sample/catalogue.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";
import { clause, type Subject } from "./subject.ts";

export interface CatalogueSubject extends Subject {
  /** Where the server's processes show. */
  readonly proc: Proc;
  /** Where its files lie. */
  readonly files: Files;
}

interface ContractOptions {
  readonly against: string;
  /** Why there is none, or null. */
  readonly missing: string | null;
  readonly open: () => Promise<CatalogueSubject>;
}

const LIVE = new AbortController().signal;

/** Held against every Ollama: the store on the disk is what the server lists, to the byte. */
export function storeContract(options: ContractOptions): void {
  clause(options, "its store is catalogued to the byte, found by its own environment or the usual place", async () => {
    await using subject = await options.open();
    const { clock, url, port, proc } = subject;
    const api = connectOllama({ url, clock });
    const listed = (await subject.until(api.tags(LIVE))).filter(({ isRemote }) => !isRemote);
    assert.ok(listed.length > 0, "the contract needs an installed model");
    const { ollamaServer, runners } = tenantProcesses({ proc, clock, ollamaPort: port, comfyPort: null })
      .read({ isOllamaOnline: true, isComfyOnline: false, comfyArgv: [] });
    const catalogue = await read(subject, {
      hints: { ollamaServer, runners, comfyServer: null, isComfyOnline: false },
    });
    const own = catalogue.entries.filter(({ source, isShadowed }) => source === "ollama" && !isShadowed);
    const rows = (entries: readonly { name: string; digest: string | null; sizeBytes: number | null }[]) =>
      entries.map(({ name, digest, sizeBytes }) => ({ name, digest, sizeBytes })).toSorted((a, b) =>
        a.name < b.name ? -1 : 1
      );
    assert.deepEqual(rows(own), rows(listed));
    assert.deepEqual(catalogue.problems, []);
    for (const { digest, files } of own) {
      assert.ok(files.length > 0 && catalogue.blobsByDigest[digest ?? ""] !== undefined);
    }
    const sum = (digest: string) =>
      own.find((entry) => entry.digest === digest)?.files
        .reduce((bytes, path) => bytes + (catalogue.files.find((file) => file.path === path)?.sizeBytes ?? 0), 0) ?? 0;
    // The weights are nearly all of it; the rest is licence, template and config.
    for (const { digest, sizeBytes } of listed) assert.ok(sum(digest) <= sizeBytes && sum(digest) > sizeBytes - 1e6);
  });
}

/** Held against every ComfyUI: each folder's list is the catalogue's, by its own word and by its command line. */
export function foldersContract(options: ContractOptions): void {
  const holds = (title: string, how: "its own word" | "its command line") =>
    clause(options, title, async () => {
      await using subject = await options.open();
      const { clock, url, port, proc } = subject;
      const api = connectComfy({ url, clock });
      const { argv } = await subject.until(api.stats(LIVE));
      const { comfyServer } = tenantProcesses({ proc, clock, ollamaPort: null, comfyPort: port })
        .read({ isOllamaOnline: false, isComfyOnline: true, comfyArgv: argv });
      assert.notEqual(comfyServer, null);
      const kinds = await subject.until(api.modelFolders(LIVE));
      assert.ok(kinds.length >= 18, `it tells only ${kinds.length} kinds`);
      const catalogue = await read(subject, {
        hints: { ollamaServer: null, runners: [], comfyServer, isComfyOnline: true },
        askFolders: () => Promise.resolve(how === "its own word" ? kinds : []),
      });
      let files = 0;
      for (const { kind } of kinds) {
        const listed = await subject.until(api.models(kind, LIVE));
        const own = catalogue.entries.filter(({ folder }) => folder === kind).map(({ name }) => name);
        assert.deepEqual(own.toSorted(), [...listed].toSorted(), kind);
        files += listed.length;
      }
      assert.ok(files > 0, "the contract needs a model file");
      assert.equal(catalogue.places.find(({ source }) => source === "comfyui")?.origin.endsWith(how.slice(4)), true);
    });
  holds("every folder's list is the catalogue's, by the server's own word", "its own word");
  holds("every folder's list is the catalogue's, by its command line and the files it names", "its command line");
}

/** One round of the catalogue, with nothing configured. */
async function read(
  subject: CatalogueSubject,
  { hints, askFolders = () => Promise.resolve([]) }: {
    readonly hints: CatalogueHints;
    readonly askFolders?: Parameters<typeof watchCatalogue>[0]["askFolders"];
  },
): Promise<Catalogue> {
  const { clock, files, proc } = subject;
  const watch = watchCatalogue({
    clock,
    files,
    proc,
    settings: { ollamaStores: [], comfyFolders: [], comfyExtraFiles: [], linkTargets: [], home: null },
    hints: () => hints,
    askFolders,
  });
  try {
    const endMs = clock.monotonicMs() + 10_000;
    while (watch.latest() === null && clock.monotonicMs() < endMs) await subject.until(clock.sleep(20));
    const catalogue = watch.latest();
    assert.ok(catalogue !== null, watch.crash ?? "no round ended");
    return catalogue;
  } finally {
    watch.stop();
  }
}
