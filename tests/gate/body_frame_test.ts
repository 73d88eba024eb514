import assert from "node:assert/strict";
import fc from "fast-check";
import { ChunkedFrame, MalformedFrame, requestFrame, responseFrame } from "../../lib/gate/body_frame.ts";
import {
  keepsAlive,
  nextHopFields,
  parseRequestHead,
  parseResponseHead,
  writeRequestHead,
} from "../../lib/gate/http_head.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("a chunked body ends at the same byte, however it is cut into pieces", () => {
  const chunk = fc.tuple(fc.string({ minLength: 1, unit: "binary-ascii" }), fc.constantFrom("", ";a=b", " ;x"));
  const trailers = fc.constantFrom("", "X-T: 1\r\n", "A: b\r\nC: d\r\n");
  fc.assert(
    fc.property(fc.array(chunk), trailers, fc.array(fc.integer({ min: 1, max: 9 })), (chunks, trailer, sizes) => {
      const body = chunks.map(([text, extension]) => `${text.length.toString(16)}${extension}\r\n${text}\r\n`).join("");
      const whole = bytes(`${body}0\r\n${trailer}\r\n`);
      const text = new Uint8Array([...whole, ...bytes("GET /next")]);
      const frame = new ChunkedFrame();
      let content = "";
      let taken = 0;
      for (let at = 0, n = 0; at < text.length && !frame.isDone; n += 1) {
        const piece = text.subarray(at, at + (sizes[n % Math.max(1, sizes.length)] ?? 5));
        const count = frame.take(piece, (part) => content += new TextDecoder().decode(part));
        taken += count;
        at += piece.length;
      }
      assert.equal(taken, whole.length);
      assert.ok(frame.isDone);
      assert.equal(content, chunks.map(([part]) => part).join(""));
    }),
    { numRuns: 200 },
  );
});

for (
  const body of ["x\r\n", "-1\r\n", "3\nabc", "3\r\nabcd\r\n", "0x3\r\n", `${"1".repeat(13)}\r\n`, "1".repeat(9_000)]
) {
  Deno.test(`no chunk: ${JSON.stringify(body.slice(0, 20))}`, () => {
    assert.throws(() => new ChunkedFrame().take(bytes(body)), MalformedFrame);
  });
}

for (
  const [fields, method, expected] of [
    ["Content-Length: 5", "GET", "length"],
    ["Content-Length: 5", "HEAD", "nothing"],
    ["", "GET", "until the end"],
    ["Transfer-Encoding: chunked", "GET", "chunks"],
    ["Transfer-Encoding: gzip, chunked", "GET", "chunks"],
    ["Content-Length: 5\r\nContent-Length: 6", "GET", "nothing that can be read"],
    ["Content-Length: +5", "GET", "nothing that can be read"],
  ] as const
) {
  Deno.test(`an answer to ${method} with ${JSON.stringify(fields)} has ${expected}`, () => {
    const head = parseResponseHead(`HTTP/1.1 200 OK\r\n${fields}${fields === "" ? "" : "\r\n"}\r\n`);
    assert.ok(head !== null);
    const frame = responseFrame(head, { method });
    const said = frame === null
      ? "nothing that can be read"
      : frame === "until the end"
      ? frame
      : frame instanceof ChunkedFrame
      ? "chunks"
      : frame.isDone
      ? "nothing"
      : "length";
    assert.equal(said, expected);
  });
}

for (const fields of ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked", "Content-Length: 1, 2"]) {
  Deno.test(`a request with ${fields} has no body that both sides read alike`, () => {
    const head = parseRequestHead(`POST / HTTP/1.1\r\n${fields}\r\n\r\n`);
    assert.ok(head !== null);
    assert.equal(requestFrame(head), null);
  });
}

Deno.test("a head that is read is written as it was, byte for byte", () => {
  const text = "GET /\xe4?%zz HTTP/1.1\r\nHost: h\r\nX-Empty: \r\nX-Bytes: \xff\x80\r\nx-bytes: 2\r\n\r\n";
  const head = parseRequestHead(text);
  assert.ok(head !== null);
  assert.equal(writeRequestHead(head), text);
});

Deno.test("Connection can't take away what a server judges by", () => {
  const fields = [
    { name: "Connection", value: "close, Origin, Host, X-Mine" },
    { name: "Origin", value: "https://evil.example" },
    { name: "Host", value: "h" },
    { name: "X-Mine", value: "1" },
  ];
  assert.deepEqual(nextHopFields(fields, { keepsUpgrade: false }).map(({ name, value }) => `${name}: ${value}`), [
    "Connection: close",
    "Origin: https://evil.example",
    "Host: h",
  ]);
  assert.equal(keepsAlive({ version: "HTTP/1.1", fields }), false);
});
