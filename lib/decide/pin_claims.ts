/** Which pins hold which locked file: it stays locked until the last of them lets go, and counts once. Pure. */
import type { ModelFile, Presence } from "../model/catalogue.ts";

/** One order to lock a model or a file; told from another of the same name by its identity. */
export interface Claim {
  /** The model's name; a file's path where that is all that was named. */
  readonly name: string;
}

export interface Claimed {
  readonly file: ModelFile;
  /** In the order of asking. */
  readonly claims: readonly Claim[];
}

/** By the path under which a file is locked, or is to be. */
export type Claims = ReadonlyMap<string, Claimed>;

/** Claims files for an order: those that others claim too, under whatever name, are shared with them. */
export function claimFiles(claims: Claims, files: readonly ModelFile[], by: Claim): Claims {
  const next = new Map(claims);
  for (const file of files) {
    const known = claimedAs(next, file) ?? { file, claims: [] };
    next.set(known.file.path, { ...known, claims: [...known.claims, by] });
  }
  return next;
}

/** Takes claims back; a file that nobody claims any more is no longer among them. */
export function dropClaims(claims: Claims, isDropped: (claim: Claim, file: ModelFile) => boolean): Claims {
  const left = [...claims].map(([path, { file, claims: by }]) =>
    [path, { file, claims: by.filter((claim) => !isDropped(claim, file)) }] as const
  );
  return new Map(left.filter(([, { claims: by }]) => by.length > 0));
}

/** What is claimed of this file, by its path or as another name of it (a hard link); null where nothing is. */
export function claimedAs(claims: Claims, file: ModelFile): Claimed | null {
  return claims.get(file.path) ?? [...claims.values()].find((other) => isSameFile(other.file, file)) ?? null;
}

/** Two paths of one file. Some file systems give an id twice, but not with all else the same. */
export function isSameFile(one: ModelFile, other: ModelFile): boolean {
  if (one.path === other.path) return true;
  return one.id === other.id && one.sizeBytes === other.sizeBytes && one.modifiedAtMs === other.modifiedAtMs;
}

/** Each once. */
export function namesOf({ claims }: Pick<Claimed, "claims">): readonly string[] {
  return [...new Set(claims.map(({ name }) => name))];
}

/**
 * Whose claim ends when a file is unpinned by its path: that of who named the path, or the only one there is. Null where
 * several models share it: each of them has to be named.
 */
export function nameToDrop(claimed: Claimed): string | null {
  const names = namesOf(claimed);
  const { path } = claimed.file;
  return names.includes(path) ? path : names.length === 1 ? names[0] ?? null : null;
}

export type PinFate =
  | { readonly kind: "kept" }
  | { readonly kind: "released" | "unchecked"; readonly why: string };

/** What becomes of a lock by what lies under its path now. One that can't be looked at is no reason to let go. */
export function fateOfPin(presence: Presence, id: string): PinFate {
  if (presence.kind === "unknown") return { kind: "unchecked", why: presence.reason };
  if (presence.kind === "gone") return { kind: "released", why: "it is gone" };
  return presence.facts.id === id ? { kind: "kept" } : { kind: "released", why: "it was replaced" };
}
