/** Heads of HTTP/1 messages: read strictly, and written again as they were sent but for what belongs to one hop. */

/** One line of a head, its name and value as they were sent. */
export interface HeadField {
  readonly name: string;
  readonly value: string;
}

export type HttpVersion = "HTTP/1.0" | "HTTP/1.1";

export interface RequestHead {
  readonly method: string;
  /** As sent: an upstream tells `//x`, `/x/` and `/%78` apart, and so must what it is sent. */
  readonly target: string;
  readonly version: HttpVersion;
  readonly fields: readonly HeadField[];
}

export interface ResponseHead {
  readonly version: HttpVersion;
  readonly status: number;
  readonly phrase: string;
  readonly fields: readonly HeadField[];
}

/** More than any of both upstreams takes (ComfyUI: 8 KiB a line). */
export const MAX_HEAD_BYTES = 65_536;

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) (HTTP\/1\.[01])$/;
const STATUS_LINE = /^(HTTP\/1\.[01]) ([1-9][0-9]{2})(?: (.*))?$/;
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What could be read as a line's end by one side and not by the other. */
const STRAY_BREAK = /[\0\r\n]/;

/** Null when it is none: what one side reads differently from the other must not be passed on. */
export function parseRequestHead(text: string): RequestHead | null {
  const parts = splitHead(text);
  const line = REQUEST_LINE.exec(parts?.first ?? "");
  if (parts === null || line === null) return null;
  const [, method = "", target = "", version] = line;
  return { method, target, version: versionOf(version), fields: parts.fields };
}

export function parseResponseHead(text: string): ResponseHead | null {
  const parts = splitHead(text);
  const line = STATUS_LINE.exec(parts?.first ?? "");
  if (parts === null || line === null) return null;
  const [, version, status, phrase = ""] = line;
  return { version: versionOf(version), status: Number(status), phrase, fields: parts.fields };
}

function splitHead(text: string): { readonly first: string; readonly fields: readonly HeadField[] } | null {
  const [first = "", ...lines] = text.replace(/\r\n\r\n$/, "").split("\r\n");
  const fields: HeadField[] = [];
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon));
    // A folded line begins with a space, and so has no name.
    if (!FIELD_NAME.test(name) || STRAY_BREAK.test(line)) return null;
    fields.push({ name, value: trimmed(line, colon + 1) });
  }
  return STRAY_BREAK.test(first) ? null : { first, fields };
}

/** Without the spaces and tabs around it. By hand: a pattern for the end takes the square of a run of spaces. */
function trimmed(line: string, from: number): string {
  const isSpace = (at: number) => line[at] === " " || line[at] === "\t";
  let [start, end] = [from, line.length];
  while (start < end && isSpace(start)) start += 1;
  while (end > start && isSpace(end - 1)) end -= 1;
  return line.slice(start, end);
}

function versionOf(text: string | undefined): HttpVersion {
  return text === "HTTP/1.0" ? "HTTP/1.0" : "HTTP/1.1";
}

export function writeRequestHead({ method, target, version, fields }: RequestHead): string {
  return writeHead(`${method} ${target} ${version}`, fields);
}

export function writeResponseHead({ version, status, phrase, fields }: ResponseHead): string {
  return writeHead(`${version} ${status} ${phrase}`, fields);
}

function writeHead(first: string, fields: readonly HeadField[]): string {
  return `${first}\r\n${fields.map(({ name, value }) => `${name}: ${value}\r\n`).join("")}\r\n`;
}

/** Every value of a field, in order; `name` in lower case. */
export function valuesOf(fields: readonly HeadField[], name: string): readonly string[] {
  return fields.filter((field) => isNamed(field, name)).map(({ value }) => value);
}

/** Asked many times of each message: names of another length are told apart without making a string. */
function isNamed(field: HeadField, name: string): boolean {
  return field.name.length === name.length && field.name.toLowerCase() === name;
}

/** The only value of a field, or the last of several; null when there is none. */
export function valueOf(fields: readonly HeadField[], name: string): string | null {
  return fields.findLast((field) => isNamed(field, name))?.value ?? null;
}

/** What a comma-separated field lists, in lower case. */
export function tokensOf(fields: readonly HeadField[], name: string): readonly string[] {
  const values = valuesOf(fields, name);
  if (values.length === 0) return values;
  return values.join().split(",").map((token) => token.trim().toLowerCase()).filter((token) => token !== "");
}

export function without(fields: readonly HeadField[], ...names: readonly string[]): readonly HeadField[] {
  return fields.filter(({ name }) => !names.includes(name.toLowerCase()));
}

/** Says something about one connection, whether `Connection` names it or not (RFC 9110, 7.6.1). */
const HOP_BY_HOP = ["keep-alive", "proxy-connection", "te", "upgrade", "http2-settings"];

/**
 * What `Connection` may not take out of a message: its framing, and what the upstreams judge a request by. A page that
 * could have `Origin` dropped on the way would get round their checks.
 */
const END_TO_END = ["host", "origin", "content-length", "transfer-encoding", "cookie", "authorization"];

/**
 * The fields that go on to the next hop. Each client's connection has one of its own to the upstream, so `close` and
 * `keep-alive` said on one side are what the gate itself has to say on the other; the order of fields stays.
 */
export function nextHopFields(
  fields: readonly HeadField[],
  { keepsUpgrade }: { readonly keepsUpgrade: boolean },
): readonly HeadField[] {
  const said = tokensOf(fields, "connection").filter((token) => !END_TO_END.includes(token));
  const own = ["close", "keep-alive", ...keepsUpgrade ? ["upgrade"] : []];
  const next: HeadField[] = [];
  for (const field of fields) {
    const name = field.name.toLowerCase();
    if (name === "connection") {
      const tokens = field.value.split(",").map((token) => token.trim());
      const kept = tokens.filter((token) => own.includes(token.toLowerCase()));
      if (kept.length > 0) next.push({ name: field.name, value: kept.join(", ") });
    } else if (name === "upgrade" && keepsUpgrade || !HOP_BY_HOP.includes(name) && !said.includes(name)) {
      next.push(field);
    }
  }
  return next;
}

/** A request to go over to WebSocket: the one protocol that both ends are known to speak. */
export function isWebSocketUpgrade({ method, version, fields }: RequestHead): boolean {
  return method === "GET" && version === "HTTP/1.1" && tokensOf(fields, "connection").includes("upgrade") &&
    tokensOf(fields, "upgrade").join() === "websocket";
}

/** Whether another message may follow on the connection, as this one says it. */
export function keepsAlive({ version, fields }: { version: HttpVersion; fields: readonly HeadField[] }): boolean {
  const said = tokensOf(fields, "connection");
  if (said.includes("close")) return false;
  return version === "HTTP/1.1" || said.includes("keep-alive");
}
