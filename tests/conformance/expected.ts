/**
 * The official conformance suite's scenarios, one by one: what comes out of each against `/mcp`, and for those that fail
 * the suite's own message, which names the fixture that its own test server has and no other.
 */

/** The version whose scenarios these are. */
export const SUITE = "@modelcontextprotocol/conformance@0.1.16";

export interface Expected {
  /** The message of each failed check, as the suite prints it; empty: the scenario passes. */
  readonly failures: readonly string[];
  /** The message of each warning. */
  readonly warnings?: readonly string[];
  /** What to make of the above. */
  readonly why?: string;
}

const PASSES: Expected = { failures: [] };

function wantsTool(name: string): Expected {
  return {
    failures: [`Failed: MCP error -32602: Cannot find a tool named "${name}"`],
    why: `calls the suite's own tool ${name}`,
  };
}

function wantsPrompt(name: string): Expected {
  return {
    failures: [`Failed: MCP error -32602: Cannot find a prompt named "${name}"`],
    why: `asks for the suite's own prompt ${name}`,
  };
}

function wantsResource(uri: string): Expected {
  return {
    failures: [`Failed: MCP error -32602: Cannot find the resource ${uri}`],
    why: `reads the suite's own resource ${uri}`,
  };
}

export const EXPECTED: Readonly<Record<string, Expected>> = {
  "server-initialize": PASSES,
  "logging-set-level": PASSES,
  "ping": PASSES,
  "completion-complete": PASSES,
  "tools-list": PASSES,
  "tools-call-simple-text": wantsTool("test_simple_text"),
  "tools-call-image": wantsTool("test_image_content"),
  "tools-call-audio": wantsTool("test_audio_content"),
  "tools-call-embedded-resource": wantsTool("test_embedded_resource"),
  "tools-call-mixed-content": wantsTool("test_multiple_content_types"),
  "tools-call-with-logging": wantsTool("test_tool_with_logging"),
  "tools-call-error": wantsTool("test_error_handling"),
  "tools-call-with-progress": wantsTool("test_tool_with_progress"),
  "tools-call-sampling": wantsTool("test_sampling"),
  "tools-call-elicitation": wantsTool("test_elicitation"),
  "json-schema-2020-12": {
    // The message goes on with the names of our tools.
    failures: ["Tool 'json_schema_2020_12_tool' not found."],
    why: "looks for the suite's own tool json_schema_2020_12_tool",
  },
  "elicitation-sep1034-defaults": wantsTool("test_elicitation_sep1034_defaults"),
  "elicitation-sep1330-enums": wantsTool("test_elicitation_sep1330_enums"),
  "server-sse-polling": {
    failures: [],
    warnings: [
      "Server did not send priming event with id and empty data on POST SSE stream. This is recommended for resumability.",
      "Server did not send retry field. This is recommended for controlling client reconnection timing.",
      "Server did not send tool response after client reconnected with Last-Event-ID",
    ],
    why:
      "it calls the suite's own tool test_reconnection, and says that it speaks 2025-03-26: clients of versions before " +
      "2025-11-25 stumble over an empty event, so only those from then on are sent one, with the retry time in it",
  },
  "server-sse-multiple-streams": PASSES,
  "resources-list": PASSES,
  "resources-read-text": wantsResource("test://static-text"),
  "resources-read-binary": wantsResource("test://static-binary"),
  "resources-templates-read": wantsResource("test://template/123/data"),
  "resources-subscribe": PASSES,
  "resources-unsubscribe": PASSES,
  "prompts-list": PASSES,
  "prompts-get-simple": wantsPrompt("test_simple_prompt"),
  "prompts-get-with-args": wantsPrompt("test_prompt_with_arguments"),
  "prompts-get-embedded-resource": wantsPrompt("test_prompt_with_embedded_resource"),
  "prompts-get-with-image": wantsPrompt("test_prompt_with_image"),
  "dns-rebinding-protection": PASSES,
};
