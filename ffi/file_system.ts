/** File systems by the number that statfs gives. Pure. */

/** statfs.f_type; the others behave like none of these, or haven't been measured. */
const NAMES = {
  0x794C7630: "overlay",
  0x65735546: "fuse",
  0xEF53: "ext4",
  0x58465342: "xfs",
  0x9123683E: "btrfs",
  0xF2F52010: "f2fs",
  0x01021994: "tmpfs",
  0x858458F6: "ramfs",
  0x73717368: "squashfs",
  0xE0F5E1E2: "erofs",
  0x2FC12FC1: "zfs",
} as const;

export type FileSystem = typeof NAMES[keyof typeof NAMES] | "other";

/** Names a file system; `type` is the low 32 bits of statfs.f_type. */
export function fileSystemOf(type: number): FileSystem {
  const names: Readonly<Record<number, FileSystem>> = NAMES;
  return names[type] ?? "other";
}
