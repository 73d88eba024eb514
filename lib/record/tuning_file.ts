/**
 * Profiles and quarantine in one small file of the state folder. Not in the database: a card's settings must outlive a
 * broken or deleted history, and its owner may want to read or copy them.
 */
import { LEVERS } from "../model/card.ts";
import { messageOf } from "../model/failure.ts";
import type { Log } from "../model/ports.ts";
import type { Profile, ProfileValue, ProfileValues, Quarantined, TuningBook, TuningStore } from "../model/tuning.ts";

const EMPTY: TuningBook = { profiles: [], quarantine: [] };

/** A file that can't be read is set aside, so that the next save doesn't destroy it. */
export function tuningFile(path: string, log: Log): TuningStore {
  return {
    async load() {
      let text: string;
      try {
        text = await Deno.readTextFile(path);
      } catch (error) {
        if (error instanceof Deno.errors.NotFound) return EMPTY;
        log.warn(`Cannot read the profiles in ${path}`, { error: messageOf(error) });
        return EMPTY;
      }
      try {
        return bookFrom(JSON.parse(text));
      } catch (error) {
        const aside = `${path}.unreadable`;
        log.warn(`Cannot make sense of the profiles in ${path}: kept as ${aside}`, { error: messageOf(error) });
        await Deno.rename(path, aside).catch((cause) => log.warn("Cannot rename it", { error: messageOf(cause) }));
        return EMPTY;
      }
    },
    async save(book) {
      // Whole or not at all: written beside, on disk, then renamed over.
      const draft = `${path}.new`;
      const file = await Deno.open(draft, { write: true, create: true, truncate: true, mode: 0o640 });
      try {
        const bytes = new TextEncoder().encode(`${JSON.stringify(book, null, 2)}\n`);
        for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
        await file.sync();
      } finally {
        file.close();
      }
      await Deno.rename(draft, path);
    },
  };
}

/** Keeps the book in memory only, where nothing may be written. */
export function tuningMemory(): TuningStore {
  let kept = EMPTY;
  return {
    load: () => Promise.resolve(kept),
    save: (book) => {
      kept = book;
      return Promise.resolve();
    },
  };
}

/** Throws where the text isn't a book. Values are checked against the card whenever they are used. */
function bookFrom(value: unknown): TuningBook {
  const { profiles, quarantine } = objectOf(value);
  if (!Array.isArray(profiles) || !Array.isArray(quarantine)) throw new TypeError("Profiles or quarantine is no list");
  return { profiles: profiles.map(profileFrom), quarantine: quarantine.map(quarantinedFrom) };
}

function profileFrom(value: unknown): Profile {
  const { name, values } = objectOf(value);
  if (typeof name !== "string") throw new TypeError("A profile has no name");
  const given = objectOf(values);
  const levers = LEVERS.flatMap((lever) => given[lever] === undefined ? [] : [[lever, valueFrom(given[lever])]]);
  // Keys come from LEVERS, values from valueFrom.
  return { name, isBuiltIn: false, values: Object.fromEntries(levers) as ProfileValues, measured: {} };
}

function valueFrom(value: unknown): ProfileValue {
  if (value === "default" || value === "max") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new TypeError(`${JSON.stringify(value)} is no lever's value`);
}

function quarantinedFrom(value: unknown): Quarantined {
  const { profile, reason } = objectOf(value);
  if (typeof profile !== "string" || typeof reason !== "string") throw new TypeError("A quarantine names no profile");
  return { profile, reason };
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("Not an object");
  return value as Readonly<Record<string, unknown>>; // just checked
}
