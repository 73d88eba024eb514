import type { Log, LogFields } from "../model/ports.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = typeof LOG_LEVELS[number];

/** `journal`: like text, but the journal keeps the time and reads the priority from a `<n>` in front. */
export const LOG_FORMATS = ["text", "json", "journal"] as const;
export type LogFormat = typeof LOG_FORMATS[number];

/** Syslog priorities (sd-daemon(3)). */
const PRIORITY: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

const SECRET_KEY = /token|secret|passw|authorization|cookie|api[-_]?key|credential/i;
const REDACTED = "[redacted]";
/** How deep fields are printed: enough for an error with its causes, not for a whole sample. */
const DEEPEST = 4;

export interface StderrLogOptions {
  /** Entries below it are dropped. Asked for each entry, so it may change. */
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Takes one finished line without its line feed. Default: stderr. */
  readonly write?: (line: string) => void;
  /** Wall clock of the entries. */
  readonly wallMs?: () => number;
}

/** A Log that prints one line an entry. Secrets are recognised by field name and by shape, and never printed. */
export function stderrLog(options: StderrLogOptions): Log {
  const write = options.write ?? ((line) => console.error(line));
  const wallMs = options.wallMs ?? Date.now;
  const at = (level: LogLevel) => (message: string, fields: LogFields = {}) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(options.level)) return;
    write(line({ level, message, fields, at: new Date(wallMs()).toISOString() }, options.format));
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

interface Entry {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
  readonly at: string;
}

function line(entry: Entry, format: LogFormat): string {
  const fields = Object.entries(entry.fields).map(([key, value]) => [key, plain(key, value, 0)] as const);
  const message = redact(entry.message);
  if (format === "json") {
    return JSON.stringify({ at: entry.at, level: entry.level, message, ...Object.fromEntries(fields) });
  }
  const text = [oneLine(message), ...fields.map(([key, value]) => `${key}=${inText(value)}`)].join(" ");
  if (format === "journal") return `<${PRIORITY[entry.level]}>${text}`;
  return `${entry.at} ${entry.level.toUpperCase().padEnd(5)} ${text}`;
}

/** A value as JSON can hold it: errors with their causes, no secrets, no cycles beyond the depth. */
function plain(key: string, value: unknown, depth: number): unknown {
  if (SECRET_KEY.test(key) && value !== null && value !== undefined) return REDACTED;
  if (typeof value === "string") return redact(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return String(value);
  if (typeof value !== "object" || value === null) return value ?? null;
  if (depth >= DEEPEST) return "…";
  if (value instanceof Error) {
    const cause = value.cause === undefined ? {} : { cause: plain("cause", value.cause, depth + 1) };
    return { name: value.name, message: redact(value.message), stack: redact(value.stack ?? ""), ...cause };
  }
  if (Array.isArray(value)) return value.map((item) => plain("", item, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(name, item, depth + 1)]));
}

/** Takes secrets out of text: bearer tokens, passwords in URLs, token parameters. */
export function redact(text: string): string {
  return text
    .replace(/\b(Bearer|Basic)\s+[\w\-.~+/]+=*/gi, `$1 ${REDACTED}`)
    .replace(/(\/\/)[^/\s:@]*:[^/\s@]*@/g, `$1${REDACTED}@`)
    .replace(/([?&](?:token|key|secret|password|login|code)=)[^&\s"]+/gi, `$1${REDACTED}`);
}

function inText(value: unknown): string {
  if (typeof value !== "string") return oneLine(JSON.stringify(value));
  return /^[\w.:/@%+,[\]-]+$/.test(value) ? value : JSON.stringify(value);
}

/** A line feed in a message would forge an entry; other control characters could steer a terminal. */
function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, (char) => JSON.stringify(char).slice(1, -1));
}
