/** What a run of tests came to. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  /** Names of what was not run. */
  readonly skipped: readonly string[];
}

export const NOTHING: Tally = { passed: 0, failed: 0, skipped: [] };

export function add(a: Tally, b: Tally): Tally {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: [...a.skipped, ...b.skipped] };
}

/** Counts the cases of a JUnit report as Deno writes it (steps are cases of their own). */
export function tally(xml: string): Tally {
  let passed = 0;
  let failed = 0;
  const skipped: string[] = [];
  for (const [, attributes = "", body = ""] of xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    if (/<(?:failure|error)\b/.test(body)) failed++;
    else if (/<skipped\b/.test(body)) skipped.push(nameOf(attributes));
    else passed++;
  }
  return { passed, failed, skipped };
}

/** The plain last line of a run. */
export function lastLine({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`;
}

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", "#39": "'", amp: "&" };

function nameOf(attributes: string): string {
  const name = /\bname="([^"]*)"/.exec(attributes)?.[1] ?? "a test without a name";
  return name.replaceAll(/&(#?\w+);/g, (whole, entity: string) => ENTITIES[entity] ?? whole);
}
