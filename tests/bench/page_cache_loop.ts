/** An ext4 of its own on a loop device, with the read-ahead that most disks come with. */
import { ran } from "./page_cache_file.ts";
import { MIB } from "../../lib/model/units.ts";

export interface LoopDisk {
  /** Where its image lies: on a disk it is as fast as that, in memory as fast as a processor copies. */
  readonly dir: string;
  readonly scheduler: "none" | "mq-deadline";
  /** Room for files. */
  readonly sizeBytes: number;
}

/** What `run` gives, or in words why there's no such file system here. Needs root. */
export async function onLoopDisk<T>(disk: LoopDisk, run: (folder: string) => Promise<T>): Promise<T | string> {
  const folder = await Deno.makeTempDir({ dir: disk.dir, prefix: "hyperswap_loop_" });
  const image = `${folder}/image`;
  const mounted = `${folder}/mounted`;
  try {
    await Deno.mkdir(mounted);
    await ran(`fallocate -l ${disk.sizeBytes + 512 * MIB} ${image} && mkfs.ext4 -q -F -m 0 ${image}`);
    // Past the cache of the file below, which would otherwise hold it all a second time.
    const { output } = await ran(`losetup --find --show --direct-io=on ${image}`);
    const device = output.trim();
    const queue = `/sys/block/${device.split("/").at(-1)}/queue`;
    try {
      await ran(`mount ${device} ${mounted} && chmod 755 ${mounted}`);
      try {
        await ran(`echo 128 > ${queue}/read_ahead_kb && echo ${disk.scheduler} > ${queue}/scheduler`);
        return await run(mounted);
      } finally {
        await ran(`umount ${mounted}`);
      }
    } finally {
      // A loop device keeps what was set, and the next to take it would find it.
      await ran(`echo none > ${queue}/scheduler; losetup --detach ${device}`);
    }
  } catch (error) {
    if (error instanceof Error && /^Cannot run/.test(error.message)) return error.message;
    throw error;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
