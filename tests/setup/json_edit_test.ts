import assert from "node:assert/strict";
import fc from "fast-check";
import { removeMember, setMember } from "../../lib/setup/json_edit.ts";

const PATH = ["mcpServers", "hyperswap"];

Deno.test("a member is added, renewed and removed, and every other byte stays", () => {
  const text = `{
    "theme" : "dark", "big": 12345678901234567890, "rate": 1.0,
    "mcpServers": {
        "other": {"command": "a}\\"{", "args": []}
    }
}
`;
  const added = setMember(text, PATH, { command: "/x", args: ["mcp"] });
  assert.equal(
    added,
    text.replace(
      `"args": []}\n`,
      `"args": []},
        "hyperswap": {
            "command": "/x",
            "args": [
                "mcp"
            ]
        }\n`,
    ),
  );
  const renewed = setMember(added, PATH, { command: "/y" });
  assert.deepEqual(JSON.parse(renewed).mcpServers.hyperswap, { command: "/y" });
  assert.ok(renewed.includes(`"big": 12345678901234567890, "rate": 1.0`));
  assert.equal(removeMember(renewed, PATH), text);
  assert.equal(removeMember(text, PATH), text);
});

Deno.test("what stands on the way is made", () => {
  assert.deepEqual(JSON.parse(setMember("{}", PATH, 1)), { mcpServers: { hyperswap: 1 } });
  assert.deepEqual(JSON.parse(setMember(' {"a":[1,{"b":2}] } ', PATH, 1)), {
    a: [1, { b: 2 }],
    mcpServers: { hyperswap: 1 },
  });
});

Deno.test("what isn't a JSON object is refused", () => {
  for (const text of ["", "[]", "1", "{", '{"a":1,}', '{ // a comment\n"a": 1}', '{"mcpServers": []}']) {
    assert.throws(() => setMember(text, PATH, 1), SyntaxError, text);
  }
});

Deno.test("any JSON object keeps its other members through adding and removing", () => {
  const layouts = [0, 2, "\t"] as const;
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.option(fc.dictionary(fc.string(), fc.jsonValue())),
      fc.constantFrom(...layouts),
      (other, servers, layout) => {
        const before = servers === null ? other : { ...other, mcpServers: servers };
        if (servers === null) delete before["mcpServers"];
        const text = JSON.stringify(before, null, layout);
        const after = setMember(text, PATH, { a: [1] });
        // Through text, as `before` has been: -0 and __proto__ come out otherwise.
        const plain = JSON.parse(text);
        assert.deepEqual(JSON.parse(after), {
          ...plain,
          mcpServers: { ...plain.mcpServers, hyperswap: { a: [1] } },
        });
        const { hyperswap: _ours, ...rest } = plain.mcpServers ?? {};
        assert.deepEqual(JSON.parse(removeMember(after, PATH)), { ...plain, mcpServers: rest });
      },
    ),
    { numRuns: 200, seed: 7 },
  );
});
