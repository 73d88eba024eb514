/** The C library's structs as bytes. Pure, little endian, 64-bit Linux. */

/** What statx says of a file. */
export interface FileStat {
  readonly kind: "file" | "directory" | "link" | "socket" | "fifo" | "character" | "block" | "unknown";
  /** Permission bits, e.g. 0o644. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  /** As text, since inodes reach 2^64. */
  readonly inode: string;
  /** "major:minor" of the device the file lies on, as /sys names it. */
  readonly device: string;
  /** 512-byte blocks really allocated: fewer than the size for a sparse file. */
  readonly blocks: number;
  readonly modifiedMs: number;
}

export const STATX_SIZE = 256;
/** STATX_BASIC_STATS. */
export const STATX_MASK = 0x7FF;

const KINDS: Readonly<Record<number, FileStat["kind"]>> = {
  0o10: "file",
  0o04: "directory",
  0o12: "link",
  0o14: "socket",
  0o01: "fifo",
  0o02: "character",
  0o06: "block",
};

/** struct statx. */
export function decodeStatx(view: DataView): FileStat {
  const mode = view.getUint16(28, true);
  return {
    kind: KINDS[mode >> 12] ?? "unknown",
    mode: mode & 0o7777,
    uid: view.getUint32(20, true),
    gid: view.getUint32(24, true),
    inode: view.getBigUint64(32, true).toString(),
    sizeBytes: Number(view.getBigUint64(40, true)),
    blocks: Number(view.getBigUint64(48, true)),
    modifiedMs: Number(view.getBigInt64(112, true)) * 1000 + view.getUint32(120, true) / 1e6,
    device: `${view.getUint32(136, true)}:${view.getUint32(140, true)}`,
  };
}

/** struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name. "." and ".." are left out. */
export function decodeDirectory(bytes: Uint8Array): readonly string[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const decoder = new TextDecoder();
  const names: string[] = [];
  for (let at = 0; at + 19 < bytes.length;) {
    const length = view.getUint16(at + 16, true);
    const end = bytes.indexOf(0, at + 19);
    const name = decoder.decode(bytes.subarray(at + 19, end));
    if (name !== "." && name !== "..") names.push(name);
    at += length;
  }
  return names;
}

const AF_UNIX = 1;
const SUN_PATH_SIZE = 108;

/** struct sockaddr_un. "@name" is an abstract address, as systemd writes it in NOTIFY_SOCKET; null if it's too long. */
export function encodeUnixAddress(address: string): Uint8Array<ArrayBuffer> | null {
  const isAbstract = address.startsWith("@");
  const name = new TextEncoder().encode(isAbstract ? `\0${address.slice(1)}` : `${address}\0`);
  if (name.length > SUN_PATH_SIZE) return null;
  const bytes = new Uint8Array(2 + name.length);
  new DataView(bytes.buffer).setUint16(0, AF_UNIX, true);
  bytes.set(name, 2);
  return bytes;
}
