/**
 * A small lexer for one purpose: to see code without its comments, strings and regular expressions, so that a rule
 * about syntax is not met by a sentence about it. No parser: TypeScript's own would be a dependency of 20 MB.
 */

export interface StringLiteral {
  /** Offset of the first character inside the quotes. */
  readonly start: number;
  /** What stands between the quotes, escapes as written. */
  readonly text: string;
}

export interface Masked {
  /** As long as the source, line for line; what is not code is blank, quotes and backticks stay. */
  readonly code: string;
  /** Quoted strings, and templates without expressions. */
  readonly strings: readonly StringLiteral[];
}

const BEFORE_REGEX_WORD =
  /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|instanceof|do|else|yield|await)$/;
const BEFORE_CONDITION = /(?:^|[^\w$.])(?:if|while|for|with)$/;

/** Blanks everything that is not code. */
export function mask(source: string): Masked {
  return new Lexer(source).run();
}

/** Line of an offset, counted from 1. */
export function lineAt(source: string, offset: number): number {
  let line = 1;
  for (let i = source.indexOf("\n"); i !== -1 && i < offset; i = source.indexOf("\n", i + 1)) line++;
  return line;
}

class Lexer {
  readonly #source: string;
  readonly #out: string[];
  readonly #strings: StringLiteral[] = [];
  /** One entry an open brace: true where it opened inside a template, whose text goes on after it. */
  readonly #braces: boolean[] = [];
  /** One entry an open parenthesis: true behind `if`, `while`, `for` and `with`, where a regex may follow the end. */
  readonly #parens: boolean[] = [];
  #at = 0;
  #lastParenWasCondition = false;

  constructor(source: string) {
    this.#source = source;
    this.#out = source.split("");
  }

  run(): Masked {
    if (this.#source.startsWith("#!")) this.#blankTo(this.#endOfLine());
    while (this.#at < this.#source.length) this.#step();
    return { code: this.#out.join(""), strings: this.#strings };
  }

  #step(): void {
    const char = this.#source.charAt(this.#at);
    const next = this.#source.charAt(this.#at + 1);
    if (char === "/" && next === "/") return this.#blankTo(this.#endOfLine());
    if (char === "/" && next === "*") return this.#blankTo(this.#after("*/", this.#at + 2));
    if (char === "/" && this.#canBeRegex()) return this.#regex();
    if (char === '"' || char === "'") return this.#quoted(char);
    if (char === "`") {
      this.#at++;
      return this.#template(this.#at);
    }
    this.#nest(char);
    this.#at++;
    if (char === "}" && this.#braces.pop() === true) this.#template(null);
  }

  #nest(char: string): void {
    if (char === "{") this.#braces.push(false);
    if (char === "(") this.#parens.push(BEFORE_CONDITION.test(this.#codeBefore()));
    if (char === ")") this.#lastParenWasCondition = this.#parens.pop() ?? false;
  }

  /** The last code before here on this and the lines above, trailing blanks cut (40 characters tell every case). */
  #codeBefore(): string {
    let end = this.#at;
    while (end > 0 && /\s/.test(this.#out[end - 1] ?? "")) end--;
    return this.#out.slice(Math.max(0, end - 40), end).join("");
  }

  #canBeRegex(): boolean {
    const before = this.#codeBefore();
    const last = before.slice(-1);
    if (last === "") return true;
    if (last === ")") return this.#lastParenWasCondition;
    if (/[\w$]/.test(last)) return BEFORE_REGEX_WORD.test(before);
    if (/[\]"'`]/.test(last)) return false;
    // What ends in these is a value that is divided: i++ / 2, row! / 2.
    return !/(?:\+\+|--|[\w$)\]]!)$/.test(before);
  }

  #regex(): void {
    let inClass = false;
    for (let i = this.#at + 1; i < this.#source.length; i++) {
      const char = this.#source.charAt(i);
      if (char === "\n") break;
      if (char === "\\") i++;
      else if (char === "[") inClass = true;
      else if (char === "]") inClass = false;
      else if (char === "/" && !inClass) {
        this.#at++;
        this.#blankTo(i);
        this.#at++;
        return;
      }
    }
    // No end on its line: it was a division after all.
    this.#at++;
  }

  #quoted(quote: string): void {
    const start = this.#at + 1;
    let end = start;
    while (end < this.#source.length && this.#source.charAt(end) !== quote && this.#source.charAt(end) !== "\n") {
      end += this.#source.charAt(end) === "\\" ? 2 : 1;
    }
    this.#strings.push({ start, text: this.#source.slice(start, end) });
    this.#at = start;
    this.#blankTo(end);
    this.#at = Math.min(end + 1, this.#source.length);
  }

  /** Template text up to its end or the next expression; `start` only where the template begins. */
  #template(start: number | null): void {
    let end = this.#at;
    while (end < this.#source.length && this.#source.charAt(end) !== "`" && !this.#source.startsWith("${", end)) {
      end += this.#source.charAt(end) === "\\" ? 2 : 1;
    }
    const isWhole = this.#source.charAt(end) === "`";
    if (start !== null && isWhole) this.#strings.push({ start, text: this.#source.slice(start, end) });
    this.#blankTo(end);
    if (!isWhole) this.#braces.push(true);
    this.#at = Math.min(end + (isWhole ? 1 : 2), this.#source.length);
  }

  #endOfLine(): number {
    const end = this.#source.indexOf("\n", this.#at);
    return end === -1 ? this.#source.length : end;
  }

  #after(text: string, from: number): number {
    const found = this.#source.indexOf(text, from);
    return found === -1 ? this.#source.length : found + text.length;
  }

  #blankTo(end: number): void {
    const stop = Math.min(end, this.#source.length);
    for (let i = this.#at; i < stop; i++) if (this.#out[i] !== "\n") this.#out[i] = " ";
    this.#at = stop;
  }
}
