/** The official client in every protocol version it speaks, over the standard streams of a process of ours and over HTTP. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { FROM_SOURCE, type RunningService, socketIn } from "../e2e/running_service.ts";

/** Versions of the `initialize` handshake, and the one that asks first what the server speaks. */
const HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const DISCOVERED = ["2026-07-28"];
/** The names that users know already: SPEC's minimum. */
const FEWEST_TOOLS = 23;

export interface Spoken {
  readonly version: string;
  readonly over: "stdio" | "HTTP";
  /** Null: everything was as it should be. */
  readonly wrong: string | null;
}

export async function speakAll(service: RunningService): Promise<readonly Spoken[]> {
  const spoken: Spoken[] = [];
  for (const version of [...HANDSHAKES, ...DISCOVERED]) {
    for (const over of ["stdio", "HTTP"] as const) {
      const wrong = await speak(service, { version, over }).then(() => null, String);
      spoken.push({ version, over, wrong });
    }
  }
  return spoken;
}

async function speak(service: RunningService, { version, over }: Pick<Spoken, "version" | "over">): Promise<void> {
  const client = new Client({ name: "hyperswap-protocols", version: "1" }, {
    ...(DISCOVERED.includes(version)
      ? { versionNegotiation: { mode: { pin: version } } }
      : { supportedProtocolVersions: [version] }),
  });
  await client.connect(
    over === "HTTP" ? new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`)) : new StdioClientTransport({
      command: FROM_SOURCE.path,
      args: [...FROM_SOURCE.args, "mcp", "--socket", socketIn(service.folder)],
      stderr: "ignore",
    }),
  );
  try {
    expect(client.getNegotiatedProtocolVersion() === version, `it speaks ${client.getNegotiatedProtocolVersion()}`);
    const { tools } = await client.listTools();
    expect(tools.length >= FEWEST_TOOLS, `it lists ${tools.length} tools`);
    const read = await client.callTool({ name: "get_gpu_status", arguments: {} });
    expect(read.isError !== true && /RTX 4080/.test(JSON.stringify(read.content)), "a read doesn't name the card");
    const done = await client.callTool({ name: "soft_yield_ollama_vram", arguments: { confirm: false } });
    expect(done.isError !== true && /outcome/.test(JSON.stringify(done.content)), "a yield has no outcome");
    const refused = await client.callTool({ name: "request_vram_for_ollama", arguments: { needed_gb: -1 } });
    expect(refused.isError === true && /invalid_input/.test(JSON.stringify(refused.content)), "-1 GB is taken");
    const { contents } = await client.readResource({ uri: "gpu://metrics/live" });
    expect(contents.length === 1, `a resource has ${contents.length} contents`);
    const { prompts } = await client.listPrompts();
    expect(prompts.length >= 3, `it lists ${prompts.length} prompts`);
  } finally {
    await client.close();
  }
}

function expect(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}
