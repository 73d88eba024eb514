/** kill -9 in the middle of writing, again and again on one file: what was told as kept must be there. */
import { DatabaseSync } from "node:sqlite";
import { tempFolder } from "../record/temp_folder.ts";
import type { Figure } from "../tasks/figures.ts";
import { writeAndKill } from "../workers/killed_writer.ts";

export async function killWriters(kills: number): Promise<Figure[]> {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const told: number[] = [];
  let whole = 0;
  let lostEvents = 0;
  let lostSeconds = 0;
  let scattered = 0;
  for (let round = 0; round < kills; round++) {
    const own = await writeAndKill(path, round * 100_000, 2 + round % 40);
    told.push(...own);
    const db = new DatabaseSync(path);
    if (db.prepare("PRAGMA integrity_check").get()?.["integrity_check"] === "ok") whole += 1;
    const events = new Set(db.prepare("SELECT at_ms FROM events").all().map((row) => row["at_ms"]));
    const seconds = new Set(db.prepare("SELECT second FROM telemetry").all().map((row) => row["second"]));
    db.close();
    lostEvents += told.filter((n) => !events.has(n)).length;
    const missing = own.filter((n) => !seconds.has(n));
    lostSeconds = Math.max(lostSeconds, missing.length);
    // A batch is written whole: only the newest can be missing.
    const newest = own.slice(own.length - missing.length);
    if (missing.some((n) => !newest.includes(n))) scattered += 1;
  }
  const n = kills;
  return [
    { name: "kills after which the file was whole", value: whole, unit: `of ${kills}`, bar: { atLeast: kills }, n },
    { name: "events lost that were told as kept", value: lostEvents, unit: `of ${told.length}`, bar: { atMost: 0 }, n },
    { name: "seconds lost before the last batch", value: scattered, unit: "kills", bar: { atMost: 0 }, n },
    { name: "seconds in the batch that was lost", value: lostSeconds, unit: "at most", bar: null, n },
  ];
}
