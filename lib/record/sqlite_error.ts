import { messageOf } from "../model/failure.ts";

/** What a failure of the database is about, as far as that decides what is done. */
export type SqliteTrouble = "corrupt" | "locked" | "full" | "unwritable" | "other";

/** Primary result codes (sqlite3.h). */
const BY_CODE: Readonly<Record<number, SqliteTrouble>> = {
  5: "locked",
  6: "locked",
  8: "unwritable",
  11: "corrupt",
  13: "full",
  14: "unwritable",
  26: "corrupt",
};

/** exec() and the constructor give no code, only SQLite's own message (fixed English, sqlite3_errstr). */
const BY_MESSAGE: readonly (readonly [RegExp, SqliteTrouble])[] = [
  [/file is not a database|disk image is malformed/, "corrupt"],
  [/database (table )?is locked/, "locked"],
  [/disk is full/, "full"],
  [/unable to open database file|readonly database/, "unwritable"],
];

/** What troubles the database. */
export function troubleOf(error: unknown): SqliteTrouble {
  const code = error instanceof Error && "errcode" in error ? error.errcode : null;
  if (typeof code === "number") return BY_CODE[code & 0xff] ?? "other";
  const message = messageOf(error);
  return BY_MESSAGE.find(([pattern]) => pattern.test(message))?.[1] ?? "other";
}

const REMEDY: Readonly<Record<SqliteTrouble, string>> = {
  corrupt: "The damaged file was kept beside the new one",
  locked: "Another program holds the database: close it",
  full: "Make room on that file system",
  unwritable: "Check that the folder exists and that the service may write there",
  other: "See the log",
};

/** The failure in a sentence with its remedy. */
export function describeTrouble(error: unknown, path: string): string {
  return `Cannot keep history in ${path}: ${messageOf(error)}. ${REMEDY[troubleOf(error)]}`;
}
