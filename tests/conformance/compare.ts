/** What the conformance suite found beside what is expected of it. */
import type { Expected } from "./expected.ts";

/** One check, as the suite writes it. */
export interface Check {
  readonly status: string;
  readonly errorMessage?: string;
}

/** In words, what isn't as expected; empty where everything is. */
export function differences(
  found: ReadonlyMap<string, readonly Check[]>,
  expected: Readonly<Record<string, Expected>>,
): readonly string[] {
  const missing = Object.keys(expected).filter((name) => !found.has(name)).map((name) => `${name}: wasn't run`);
  const others = [...found].flatMap(([name, checks]) => {
    const wanted = expected[name];
    if (wanted === undefined) return [`${name}: is new`];
    return [
      ...unlike(name, messagesOf(checks, "FAILURE"), wanted.failures),
      ...unlike(name, messagesOf(checks, "WARNING"), wanted.warnings ?? []),
    ];
  });
  return [...missing, ...others];
}

function messagesOf(checks: readonly Check[], status: string): readonly string[] {
  return checks.filter((check) => check.status === status).map(({ errorMessage = "" }) => errorMessage);
}

function unlike(name: string, found: readonly string[], expected: readonly string[]): readonly string[] {
  const news = found.filter((message) => !expected.some((known) => message.startsWith(known)));
  const gone = expected.filter((known) => !found.some((message) => message.startsWith(known)));
  return [...news.map((message) => `${name}: ${message}`), ...gone.map((known) => `${name}: no longer says: ${known}`)];
}
