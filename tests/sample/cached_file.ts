/** A real file whose pages a test brings in and drops: 16 MiB of noise on a disk, as a model's blob would lie there. */
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { openPageCalls, type PageCalls } from "../../ffi/page_calls.ts";
import { MIB } from "../../lib/model/units.ts";

export const PAGE = 4096;

export interface CachedFile extends AsyncDisposable {
  readonly folder: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly libc: Libc;
  readonly pages: PageCalls;
  /** Drops it all; pages left, which is 0 unless something maps them. */
  evict(): number;
  /** Reads whole pages in, without read-ahead. */
  load(pages: Iterable<number>): void;
  /** Resident pages, by the kernel's count. */
  resident(): number;
}

export interface CachedFileOptions {
  readonly sizeBytes?: number;
  /** Where the temporary folder is made; default /var/tmp, which is on a disk more often than /tmp. */
  readonly dir?: string;
}

/** Why nothing can be evicted there (so that there's nothing to test), or null. */
export function whyNotHere(dir = "/var/tmp"): string | null {
  using libc = openLibc();
  using pages = openPageCalls();
  const fd = libc.open(dir, { flags: ["read", "directory"] });
  const fileSystem = pages.fileSystem(fd);
  libc.close(fd);
  if (!pages.hasCachestat) return "this kernel has no cachestat";
  if (pages.pageSizeBytes !== PAGE) return `pages are ${pages.pageSizeBytes} bytes here`;
  return ["ext4", "xfs", "btrfs", "f2fs"].includes(fileSystem) ? null : `${dir} is on ${fileSystem}`;
}

export async function cachedFile(options: CachedFileOptions = {}): Promise<CachedFile> {
  const { sizeBytes = 16 * MIB, dir = "/var/tmp" } = options;
  const folder = await Deno.realPath(await Deno.makeTempDir({ dir, prefix: "hyperswap_pages_" }));
  // Others must get in, for the tests that look at it as a stranger.
  await Deno.chmod(folder, 0o755);
  const path = `${folder}/blob`;
  const noise = new Uint8Array(MIB);
  for (let at = 0; at < noise.length; at += 65_536) crypto.getRandomValues(noise.subarray(at, at + 65_536));
  {
    using file = await Deno.open(path, { write: true, create: true, mode: 0o644 });
    for (let left = sizeBytes; left > 0; left -= noise.length) {
      await file.write(noise.subarray(0, Math.min(left, noise.length)));
    }
    // Dirty pages can't be dropped.
    await file.sync();
  }
  const libc = openLibc();
  const pages = openPageCalls();
  const fd = libc.open(path, { flags: ["read"] });
  pages.advise(fd, "random");
  const resident = () => pages.cachestat(fd).cachedPages;
  return {
    folder,
    path,
    sizeBytes,
    libc,
    pages,
    evict: () => {
      pages.advise(fd, "dontNeed");
      pages.advise(fd, "dontNeed");
      return resident();
    },
    load: (wanted) => {
      for (const page of wanted) pages.readByte(fd, { offset: page * PAGE, isWaiting: true });
    },
    resident,
    [Symbol.asyncDispose]: async () => {
      libc.close(fd);
      libc[Symbol.dispose]();
      pages[Symbol.dispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** `from`, `from + step`, … below `to`. */
export function* range(from: number, to: number, step = 1): Generator<number> {
  for (let at = from; at < to; at += step) yield at;
}
