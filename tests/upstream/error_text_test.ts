import assert from "node:assert/strict";
import { errorText } from "../../lib/upstream/error_text.ts";
import { recorded, recordedBody } from "./recorded.ts";

Deno.test("an error body says one line, in every form that was recorded", () => {
  assert.equal(errorText(recorded("ollama/v0.33.0/err-show-unknown.json")), "model 'nope:latest' not found");
  assert.equal(errorText(recorded("ollama/v0.33.0/err-v1-chat-unknown.json")), "model 'nope' not found");
  assert.equal(errorText(recorded("ollama/v0.33.0/err-v1-messages-unknown.json")), "model 'nope' not found");
  assert.equal(errorText(recorded("ollama/v0.33.0/err-unknown-path.txt")), "404 page not found");
  const comfy = errorText(recordedBody("http-prompt_errors.json", "prompt_err_missing_checkpoint"));
  assert.match(comfy ?? "", /^Prompt outputs failed validation/);
  assert.equal(
    errorText(recordedBody("http-queue.json", "queue_post_no_body")),
    "500 Internal Server Error Server got itself in trouble",
  );
});

Deno.test("several lines become one, long ones are cut, and nothing is null", () => {
  assert.equal(errorText('{"error":"first\\nsecond"}'), "first second");
  assert.equal(errorText("x".repeat(501))?.length, 501);
  assert.equal(errorText(""), null);
  assert.equal(errorText("  \n"), null);
  assert.equal(errorText('{"error":'), '{"error":');
});
