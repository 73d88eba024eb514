import assert from "node:assert/strict";
import fc from "fast-check";
import { lineAt, mask } from "./mask.ts";

/** Source → the code that must remain, blanks squeezed. */
const CASES: readonly (readonly [title: string, source: string, code: string])[] = [
  ["a line comment", "a; // Deno.Command\nb;", "a; b;"],
  ["a block comment over lines", "a /* Deno\n.Command */ .b", "a .b"],
  ["a doc comment at the start", "/** console */ x", " x"],
  ["a double-quoted string", `x = "Deno.Command";`, `x = " ";`],
  ["an escaped quote", `x = "a\\"Deno"; y`, `x = " "; y`],
  ["a single-quoted string", "x = 'setTimeout';", "x = ' ';"],
  ["a comment inside a string", `x = "// no"; y`, `x = " "; y`],
  ["a quote inside a comment", `x; // don't\ny`, `x; y`],
  ["a template's text", "`Date.now`;", "` `;"],
  ["a template's expression is code", "`at ${Date.now()} ms`", "` ${Date.now()} `"],
  ["templates in templates", "`a ${b(`c ${d} e`)} f`; g", "` ${b(` ${d} `)} `; g"],
  ["braces in a template's expression", "`a ${({ b: 1 }).b} c`; d", "` ${({ b: 1 }).b} `; d"],
  ["a regular expression", "x = /Deno.Command/g;", "x = / /g;"],
  ["a quote in a regular expression", `x = /["'\`]/; y`, "x = / /; y"],
  ["a slash in a character class", "x = /[/]'/; y", "x = / /; y"],
  ["a regular expression behind return", "return /'/.test(a)", "return / /.test(a)"],
  ["a regular expression behind if (…)", "if (a) /'/.test(b)", "if (a) / /.test(b)"],
  ["a regular expression as an argument", "a(/'/, b)", "a(/ /, b)"],
  ["division by a name", "a / b / 'c'", "a / b / ' '"],
  ["division behind a parenthesis", "(a) / b; 'c' / d", "(a) / b; ' ' / d"],
  ["division behind an index", "a[0] / b; /'/", "a[0] / b; / /"],
  ["division of a non-null value", "a! / b; 'x' / c", "a! / b; ' ' / c"],
  ["division of a counter", "a++ / b; 'x' / c", "a++ / b; ' ' / c"],
  ["a name that ends like a keyword", "margin / b; 'x' / c", "margin / b; ' ' / c"],
  ["an unclosed string ends with its line", `x = "abc\nDeno`, `x = " Deno`],
  ["a hashbang", "#!/usr/bin/env deno\nx", " x"],
];

for (const [title, source, code] of CASES) {
  Deno.test(`mask: ${title}`, () => {
    assert.equal(mask(source).code.replaceAll(/\s+/g, " "), code);
  });
}

Deno.test("mask: strings are kept apart, templates only without expressions", () => {
  const { strings } = mask("a('one', \"two\", `three`, `four ${x} five`)");
  assert.deepEqual(strings.map(({ text }) => text), ["one", "two", "three"]);
  assert.deepEqual(strings.map(({ start }) => start), [3, 10, 17]);
});

Deno.test("mask: any text keeps its length and its lines", () => {
  const piece = fc.constantFrom("'", '"', "`", "${", "}", "{", "/", "//", "/*", "*/", "\\", "\n", "a", "(", ")", "1");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const source = pieces.join("");
      const { code } = mask(source);
      assert.equal(code.length, source.length);
      assert.deepEqual(code.split("\n").map((line) => line.length), source.split("\n").map((line) => line.length));
    }),
    { numRuns: 500, seed: 4 },
  );
});

Deno.test("lineAt counts from one", () => {
  assert.deepEqual([0, 1, 2, 3].map((offset) => lineAt("a\nb\nc", offset)), [1, 1, 2, 2]);
});
