/**
 * Changes one member of a JSON text and leaves every other byte as it is: other people's files have their own layout,
 * and a number that is read and written again may come out as another.
 */

interface Member {
  readonly name: string;
  /** From the opening quote of its name to the end of its value. */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Throws SyntaxError where the text is no JSON object, or a way to the member is no object. */
export function setMember(text: string, path: readonly string[], value: unknown): string {
  checkObject(text);
  return setIn(text, { start: firstOf(text, 0), path, value, depth: 0, indent: indentOf(text) });
}

/** The same without that member; unchanged where it isn't there. Objects on the way stay, even if they are empty then. */
export function removeMember(text: string, path: readonly string[]): string {
  checkObject(text);
  let start = firstOf(text, 0);
  for (const [at, name] of path.entries()) {
    if (text[start] !== "{") return text;
    const members = membersOf(text, start);
    const index = members.findLastIndex((member) => member.name === name);
    const member = members[index];
    if (member === undefined) return text;
    if (at < path.length - 1) {
      start = member.valueStart;
      continue;
    }
    const { start: from, end: to } = spanWithComma(text, { members, index, open: start });
    return text.slice(0, from) + text.slice(to);
  }
  return text;
}

function checkObject(text: string): void {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SyntaxError("It holds no JSON object");
  }
}

interface Insertion {
  readonly start: number;
  readonly path: readonly string[];
  readonly value: unknown;
  readonly depth: number;
  readonly indent: string;
}

function setIn(text: string, insertion: Insertion): string {
  const { start, path, value, depth, indent } = insertion;
  const [name = "", ...rest] = path;
  if (text[start] !== "{") throw new SyntaxError(`There is no object to put ${name} into`);
  const members = membersOf(text, start);
  const member = members.findLast((one) => one.name === name);
  if (member !== undefined && rest.length > 0) {
    return setIn(text, { ...insertion, start: member.valueStart, path: rest, depth: depth + 1 });
  }
  const whole = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
  const shown = indented(JSON.stringify(whole, null, indent), indent.repeat(depth + 1));
  if (member !== undefined) return text.slice(0, member.valueStart) + shown + text.slice(member.end);
  const line = `\n${indent.repeat(depth + 1)}${JSON.stringify(name)}: ${shown}`;
  const last = members.at(-1);
  if (last !== undefined) return `${text.slice(0, last.end)},${line}${text.slice(last.end)}`;
  const close = firstOf(text, start + 1);
  return `${text.slice(0, start + 1)}${line}\n${indent.repeat(depth)}${text.slice(close)}`;
}

/** A member with the comma and the white space that go with it. */
function spanWithComma(
  text: string,
  at: { readonly members: readonly Member[]; readonly index: number; readonly open: number },
): Span {
  const { members, index, open } = at;
  const [member, before, after] = [members[index], members[index - 1], members[index + 1]];
  if (member === undefined) return { start: 0, end: 0 };
  if (before !== undefined) return { start: before.end, end: member.end };
  if (after !== undefined) return { start: member.start, end: after.start };
  return { start: open + 1, end: firstOf(text, member.end) };
}

/** The indentation that the file uses; two spaces where it doesn't show. */
function indentOf(text: string): string {
  return /\{\s*\n([ \t]+)"/.exec(text)?.[1] ?? "  ";
}

function indented(json: string, indent: string): string {
  return json.replaceAll("\n", `\n${indent}`);
}

/** The members of the object that begins at `start`. The text is known to be JSON. */
function membersOf(text: string, start: number): Member[] {
  const members: Member[] = [];
  let at = firstOf(text, start + 1);
  while (text[at] !== "}") {
    if (text[at] === ",") at = firstOf(text, at + 1);
    const nameEnd = endOf(text, at);
    const valueStart = firstOf(text, firstOf(text, nameEnd) + 1);
    const end = endOf(text, valueStart);
    members.push({ name: String(JSON.parse(text.slice(at, nameEnd))), start: at, valueStart, end });
    at = firstOf(text, end);
  }
  return members;
}

/** Where the value that begins here ends. */
function endOf(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const letter = text[at] ?? "";
    if (letter === '"') at = endOfString(text, at) - 1;
    else if (letter === "{" || letter === "[") depth++;
    else if (letter === "}" || letter === "]") {
      if (depth === 0) return at;
      depth--;
    } else if (depth === 0 && (letter === "," || isSpace(letter))) return at;
    if (depth === 0 && /["}\]]/.test(letter)) return at + 1;
  }
  return text.length;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === BACKSLASH ? 2 : 1;
  return at + 1;
}

const BACKSLASH = String.fromCharCode(92);

/** The next place that isn't white space. */
function firstOf(text: string, start: number): number {
  let at = start;
  while (at < text.length && isSpace(text[at] ?? "")) at++;
  return at;
}

function isSpace(letter: string): boolean {
  return letter === " " || letter === "\n" || letter === "\t" || letter === "\r";
}
