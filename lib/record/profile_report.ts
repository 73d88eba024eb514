import type { ProfileEntry, ProfileReport, Thermals } from "../model/analytics.ts";
import type { Throughput } from "../model/history.ts";
import { compare } from "../model/compare.ts";
import { distributionOf, meanOf } from "../model/distribution.ts";

/** What stands where no profile was applied. */
const NO_PROFILE = "none";
/** Values of a group that count: the newest. Ranks of more tell nothing new and take long to sort. */
const MOST_VALUES = 500;

interface Group {
  readonly key: string;
  readonly profile: string;
  readonly measured: readonly Throughput[];
}

/** Speeds by profile, workload, model and way of measuring; profiles are compared where all else is the same. */
export function profileReport(measured: readonly Throughput[], isTruncated: boolean): ProfileReport {
  const groups = groupsOf(measured);
  const pairs = groups.flatMap((a, at) =>
    groups.slice(at + 1).filter((b) => a.key === b.key).map((b) => [a, b] as const)
  );
  return {
    entries: groups.flatMap(entryOf),
    comparisons: pairs.flatMap(([a, b]) => {
      const [first] = a.measured;
      if (first === undefined) return [];
      const { workload, model, basis } = first;
      return [{ ...compare(namedOf(a), namedOf(b), { among: pairs.length }), workload, model, basis }];
    }),
    read: measured.length,
    isTruncated,
  };
}

function groupsOf(measured: readonly Throughput[]): readonly Group[] {
  const groups = new Map<string, { key: string; profile: string; measured: Throughput[] }>();
  for (const one of measured) {
    const key = JSON.stringify([one.workload, one.model, one.basis]);
    const profile = one.profile ?? NO_PROFILE;
    const name = `${key} ${profile}`;
    const group = groups.get(name) ?? { key, profile, measured: [] };
    groups.set(name, group);
    if (group.measured.length < MOST_VALUES) group.measured.push(one);
  }
  return [...groups.values()].sort((a, b) => a.key.localeCompare(b.key) || a.profile.localeCompare(b.profile));
}

function namedOf({ profile, measured }: Group) {
  return { name: profile, values: measured.map(({ perSecond }) => perSecond) };
}

function entryOf({ profile, measured }: Group): ProfileEntry | [] {
  const perSecond = distributionOf(measured.map((one) => one.perSecond));
  const [first] = measured;
  if (perSecond === null || first === undefined) return [];
  const { workload, model, basis } = first;
  return { profile, workload, model, basis, perSecond, thermals: thermalsOf(measured) };
}

function thermalsOf(measured: readonly Throughput[]): Thermals {
  const mean = (field: keyof Thermals) => meanOf(measured.map((one) => one[field]));
  return {
    temperatureC: mean("temperatureC"),
    powerW: mean("powerW"),
    graphicsMhz: mean("graphicsMhz"),
    memoryMhz: mean("memoryMhz"),
    fanPct: mean("fanPct"),
    throttledPct: mean("throttledPct"),
  };
}
