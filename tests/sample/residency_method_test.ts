import assert from "node:assert/strict";
import type { FileSystem } from "../../ffi/file_system.ts";
import type { ResidencyMethod } from "../../lib/model/page_cache.ts";
import { residencyMethod } from "../../lib/sample/residency_method.ts";

interface Case {
  readonly name: string;
  readonly fileSystem: FileSystem;
  readonly cachestat: "allowed" | "denied" | null;
  readonly isOurs: boolean;
  readonly method: ResidencyMethod | null;
}

const CASES: readonly Case[] = [
  { name: "our own file", fileSystem: "ext4", cachestat: "allowed", isOurs: true, method: "cachestat" },
  {
    name: "a kernel that still answers anybody",
    fileSystem: "xfs",
    cachestat: "allowed",
    isOurs: false,
    method: "cachestat",
  },
  { name: "a stranger's file", fileSystem: "ext4", cachestat: "denied", isOurs: false, method: "nowait" },
  {
    name: "a denial and write access contradict",
    fileSystem: "btrfs",
    cachestat: "denied",
    isOurs: true,
    method: "nowait",
  },
  { name: "an old kernel, our file", fileSystem: "ext4", cachestat: null, isOurs: true, method: "mincore" },
  { name: "an old kernel, a stranger's file", fileSystem: "ext4", cachestat: null, isOurs: false, method: "nowait" },
  { name: "an image layer of ours", fileSystem: "overlay", cachestat: "allowed", isOurs: true, method: "mincore" },
  {
    name: "an image layer, old cachestat",
    fileSystem: "overlay",
    cachestat: "allowed",
    isOurs: false,
    method: "inblock",
  },
  { name: "a stranger's image layer", fileSystem: "overlay", cachestat: "denied", isOurs: false, method: "inblock" },
  { name: "a packed layer", fileSystem: "squashfs", cachestat: "denied", isOurs: false, method: "inblock" },
  { name: "a stranger's FUSE file", fileSystem: "fuse", cachestat: "denied", isOurs: false, method: "majflt" },
  { name: "a network share", fileSystem: "other", cachestat: "denied", isOurs: false, method: "majflt" },
  { name: "a file in memory", fileSystem: "tmpfs", cachestat: "denied", isOurs: false, method: "memory" },
  { name: "a file in the ARC", fileSystem: "zfs", cachestat: "allowed", isOurs: true, method: null },
];

for (const { name, method, isOurs, ...ground } of CASES) {
  Deno.test(`${name} (${ground.fileSystem}): ${method ?? "unmeasurable"}`, () => {
    assert.equal(residencyMethod({ ...ground, isMincoreHonest: isOurs }), method);
  });
}
