/** Which processes own a listening socket. */
import type { Libc } from "../../ffi/libc.ts";
import { parseListeners, parseSocketLink } from "./proc_parse.ts";
import { unlessGone } from "./vanishing.ts";

/** A descriptor that was seen to be the socket. */
interface Holder {
  readonly pid: number;
  readonly link: string;
}

/** What a search through all descriptors found for one socket. */
interface Search {
  readonly holders: readonly Holder[];
  /** Processes looked through: a search without a result is repeated only for the others. */
  readonly seen: ReadonlySet<string>;
}

/**
 * Finds the owners of listening sockets under a /proc. A search reads every descriptor of every process (tens of ms on a
 * full machine), so its result is kept and only checked again: the same descriptors still are the same socket.
 */
export class Listeners {
  readonly #libc: Libc;
  readonly #root: string;
  readonly #found = new Map<string, Search>();

  constructor(libc: Libc, root: string) {
    this.#libc = libc;
    this.#root = root;
  }

  /** Pids whose descriptors own a socket listening on `port`; empty when none can be seen. */
  pids(port: number): readonly number[] {
    const inodes = new Set(["tcp", "tcp6"].flatMap((table) => this.#inodes(table, port)));
    const pids = new Set<number>();
    for (const inode of inodes) for (const holder of this.#holders(inode)) pids.add(holder.pid);
    this.#forget();
    return [...pids];
  }

  #inodes(table: string, port: number): readonly string[] {
    // No tcp6 where IPv6 is off.
    const text = unlessGone(() => this.#libc.readText(`${this.#root}/net/${table}`));
    return text === null ? [] : parseListeners(text, port);
  }

  #holders(inode: string): readonly Holder[] {
    const known = this.#found.get(inode);
    if (
      known !== undefined && known.holders.length > 0 && known.holders.every((holder) => this.#holds(holder, inode))
    ) {
      return known.holders;
    }
    // A socket that listens is not handed to strangers: who was looked through in vain needn't be looked at again.
    const seen = known === undefined || known.holders.length > 0 ? new Set<string>() : known.seen;
    const search = this.#search(inode, seen);
    this.#found.delete(inode);
    this.#found.set(inode, search);
    return search.holders;
  }

  #search(inode: string, skip: ReadonlySet<string>): Search {
    const holders: Holder[] = [];
    const pids = this.#libc.list(this.#root).filter((name) => /^[0-9]+$/.test(name));
    for (const pid of pids) {
      if (skip.has(pid)) continue;
      const folder = `${this.#root}/${pid}/fd`;
      for (const fd of unlessGone(() => this.#libc.list(folder)) ?? []) {
        const holder = { pid: Number(pid), link: `${folder}/${fd}` };
        if (this.#holds(holder, inode)) holders.push(holder);
      }
    }
    return { holders, seen: new Set(pids) };
  }

  #holds(holder: Holder, inode: string): boolean {
    const target = unlessGone(() => this.#libc.readLink(holder.link));
    return target !== null && parseSocketLink(target) === inode;
  }

  /** Keeps the last few sockets: a server that restarts comes with a new inode each time. */
  #forget(): void {
    for (const inode of this.#found.keys()) {
      if (this.#found.size <= 16) return;
      this.#found.delete(inode);
    }
  }
}
