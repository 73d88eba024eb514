/** An ext4 of its own on a loop device, with the read-ahead that most disks come with. */
import { ran } from "./page_cache_file.ts";
import { MIB } from "../../lib/model/units.ts";

/** What `run` gives, or in words why there's no such file system here. Needs root. */
export async function onSmallReadAhead<T>(
  sizeBytes: number,
  run: (folder: string) => Promise<T>,
): Promise<T | string> {
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "hyperswap_loop_" });
  const image = `${folder}/image`;
  const mounted = `${folder}/mounted`;
  try {
    await Deno.mkdir(mounted);
    await ran(`fallocate -l ${sizeBytes + 512 * MIB} ${image} && mkfs.ext4 -q -F -m 0 ${image}`);
    // Past the cache of the file below, which would otherwise hold it all a second time.
    const { output } = await ran(`losetup --find --show --direct-io=on ${image}`);
    const device = output.trim();
    try {
      await ran(`mount ${device} ${mounted} && chmod 755 ${mounted}`);
      try {
        await ran(`echo 128 > /sys/block/${device.split("/").at(-1)}/queue/read_ahead_kb`);
        return await run(mounted);
      } finally {
        await ran(`umount ${mounted}`);
      }
    } finally {
      await ran(`losetup --detach ${device}`);
    }
  } catch (error) {
    if (error instanceof Error && /^Cannot run/.test(error.message)) return error.message;
    throw error;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
