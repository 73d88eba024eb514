/** This process's TCP connections, as the kernel lists them, and ending some. */

export interface TcpCalls {
  readText(path: string): string;
  list(path: string): readonly string[];
  readLink(path: string): string;
  /** shutdown(2) of both directions. */
  shutdown(fd: number): void;
}

export interface TcpLine {
  readonly peerPort: number;
  readonly inode: string;
}

const ESTABLISHED = "01";
/** The other end has closed its side. */
const CLOSE_WAIT = "08";

/** Connections by /proc/self; a connection that ends meanwhile is left out. */
export function tcpLines(calls: TcpCalls) {
  return {
    list(port: number): readonly TcpLine[] {
      // A kernel without IPv6 has no tcp6.
      const hasIpv6 = calls.list("/proc/self/net").includes("tcp6");
      const texts = ["/proc/self/net/tcp", ...hasIpv6 ? ["/proc/self/net/tcp6"] : []].map((path) =>
        calls.readText(path)
      );
      return texts.flatMap((text) => parseTcp(text, port));
    },
    end(lines: readonly TcpLine[]): void {
      const inodes = new Set(lines.map(({ inode }) => `socket:[${inode}]`));
      for (const fd of calls.list("/proc/self/fd")) {
        try {
          // The descriptor is ours and read in the same turn, so it can't come to mean another socket meanwhile.
          if (inodes.has(calls.readLink(`/proc/self/fd/${fd}`))) calls.shutdown(Number(fd));
        } catch {
          // Closed by its own thread since the folder was listed: that is what was wanted.
        }
      }
    },
  };
}

/** Connections whose near end is `port`, from the text of /proc/net/tcp or tcp6. */
export function parseTcp(text: string, port: number): readonly TcpLine[] {
  const near = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return text.split("\n").slice(1).flatMap((line) => {
    const [, local = "", remote = "", state, , , , , , inode = ""] = line.trim().split(/\s+/);
    if (!local.endsWith(near) || (state !== ESTABLISHED && state !== CLOSE_WAIT) || inode === "0") return [];
    return [{ peerPort: Number.parseInt(remote.slice(remote.lastIndexOf(":") + 1), 16), inode }];
  });
}
