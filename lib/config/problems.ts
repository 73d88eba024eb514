/** Why a configuration can't be used, in words: key, value, where it came from, what is accepted. */
import type * as z from "zod";
import { didYouMean } from "../model/did_you_mean.ts";
import { Failure } from "../model/failure.ts";
import { configKeys } from "./keys.ts";
import { ConfigSchema } from "./schema.ts";

/** What was read, before it was checked. */
export interface Given {
  readonly tree: Readonly<Record<string, unknown>>;
  /** Dotted path → "flag --port", "HYPERSWAP_SERVER_PORT", a file's path. */
  readonly origins: Readonly<Record<string, string>>;
}

interface Problem {
  readonly text: string;
  readonly hint: string | null;
}

const SCHEMA_HINT = "`hyperswap config schema` prints what is accepted";

/** All that is wrong, as one refusal; its details list the problems one by one. */
export function refuseConfig(error: z.ZodError, given: Given): Failure {
  const problems = error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => unknownKey([...issue.path, key], given))
      : [wrongValue(issue, given)]
  );
  const texts = problems.map(({ text }) => text);
  return new Failure("invalid_input", `Cannot use the configuration: ${texts.join("; ")}`, {
    hint: problems.find(({ hint }) => hint !== null)?.hint ?? SCHEMA_HINT,
    details: { problems: problems.map(({ text, hint }) => hint === null ? text : `${text}. ${hint}`) },
  });
}

function unknownKey(path: readonly PropertyKey[], given: Given): Problem {
  const name = String(path.at(-1));
  const section = path.slice(0, -1).map(String).join(".");
  const full = path.map(String).join(".");
  const meant = didYouMean(name, knownKeys(section)) ?? elsewhere(name);
  const hint = meant === null
    ? null
    : `Did you mean ${section === "" || meant.includes(".") ? meant : `${section}.${meant}`}?`;
  return { text: `unknown key ${full}${cameFrom(full, given)}`, hint };
}

function knownKeys(section: string): readonly string[] {
  if (section === "") return Object.keys(ConfigSchema.shape);
  return configKeys().filter(({ path }) => path.startsWith(`${section}.`)).map(({ path }) =>
    path.slice(section.length + 1)
  );
}

/** The right name in the wrong table, which is the usual mistake with TOML. */
function elsewhere(name: string): string | null {
  return configKeys().find(({ path }) => path.endsWith(`.${name}`))?.path ?? null;
}

function wrongValue(issue: z.core.$ZodIssue, given: Given): Problem {
  const path = issue.path.map(String).join(".");
  const value = issue.path.reduce<unknown>(
    (inner, key) => typeof inner === "object" && inner !== null ? Reflect.get(inner, key) : undefined,
    given.tree,
  );
  const isSecret = issue.path.at(-1) === "secret";
  // A token shows its name and scopes, not what it stands for.
  const masked = (name: string, inner: unknown) => name === "secret" ? "[redacted]" : inner;
  const shown = value === undefined || isSecret ? "" : ` = ${JSON.stringify(value, masked)}`;
  return { text: `${path}${shown}${cameFrom(path, given)}: ${issue.message}`, hint: null };
}

/** A value inside a list or an unknown table came from where that came from. */
function cameFrom(path: string, { origins }: Given): string {
  const origin = origins[path] ??
    Object.entries(origins).find(([known]) => path.startsWith(`${known}.`) || known.startsWith(`${path}.`))?.[1];
  return origin === undefined ? "" : ` (from ${origin})`;
}
