/** The doors as the drift suite knocks at them: each brings what it hears to one form. */
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { FAILURES } from "../../lib/model/failure.ts";
import type { FailureCode } from "../../lib/model/failure.ts";
import type { Clock } from "../../lib/model/ports.ts";
import type { Services } from "../../lib/model/services.ts";
import type { Operation } from "../../lib/operations/operation.ts";
import type { Report } from "../../lib/operations/outcome.ts";
import { ALL_SCOPES, DEFAULT_ACCESS, peerOf } from "../../lib/show/access.ts";
import { runCli } from "../../lib/show/cli.ts";
import { findService } from "../../lib/show/http_invoker.ts";
import { localInvoker } from "../../lib/show/invoker.ts";
import type { Invoker } from "../../lib/show/invoker.ts";
import { serveMcpStdio } from "../../lib/show/mcp_stdio.ts";
import { openRest } from "../../lib/show/rest.ts";
import type { RestDoor } from "../../lib/show/rest.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { ownCommands } from "./own_commands.ts";

/** A box at a known state. Two boxes of the same seam must answer the same calls alike, ids and times included. */
export interface DriftBox {
  readonly services: Services;
  readonly clock: Clock;
  readonly report: Report;
  /** Lets the box's time pass until the promise has settled. */
  settle<T>(promise: Promise<T>): Promise<T>;
  /** Brings the box to a moment that the next question is asked at, whatever the door took for the one before. */
  readonly align?: () => Promise<void>;
  /** Says whether something is under way on sockets that aren't the box's own and needs none of its time. */
  readonly busy?: (isBusy: boolean) => void;
  /** Replaces what must differ between two boxes (a free port, a folder) in what a door said. */
  readonly steady?: (text: string) => string;
  close(): Promise<void>;
}

export type Input = Readonly<Record<string, unknown>>;

/** What a door said, in the one form that all can be brought to. */
export interface Said {
  readonly body: Readonly<Record<string, unknown>>;
  readonly code: FailureCode | null;
}

export type Ask = (box: DriftBox, operation: Operation, input: Input) => Promise<Said>;

export const DOORS: Readonly<Record<string, Ask>> = {
  REST: askRest,
  MCP: askMcp,
  CLI: askCli,
  "CLI over a socket": askRemoteCli,
};

function saidOf(body: unknown): Said {
  assert.ok(typeof body === "object" && body !== null);
  const record = body as Readonly<Record<string, unknown>>;
  const error = record["error"];
  // A run carries an `error` too, beside its id; a refusal is nothing but its error.
  const isRefusal = Object.keys(record).length === 1 && typeof error === "object" && error !== null;
  return { body: record, code: isRefusal ? (error as { code: FailureCode }).code : null };
}

function doorOf({ services, clock, report }: DriftBox): RestDoor {
  return openRest({ services, clock, report, access: () => DEFAULT_ACCESS, assets: new Map() });
}

async function askRest(box: DriftBox, operation: Operation, input: Input): Promise<Said> {
  const rest: Record<string, unknown> = { ...input };
  const path = operation.http.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(rest[name]);
    delete rest[name];
    return encodeURIComponent(value);
  });
  const isGet = operation.http.method === "GET";
  const query = new URLSearchParams(isGet ? Object.entries(rest).map(([name, value]) => [name, String(value)]) : []);
  const door = doorOf(box);
  const response = await box.settle(door.fetch(
    new Request(`http://localhost${path}?${query}`, {
      method: operation.http.method,
      headers: { host: "localhost", "content-type": "application/json" },
      ...(isGet ? {} : { body: JSON.stringify(rest) }),
    }),
    { transport: "unix" },
  ));
  const said = saidOf(await response.json());
  const wanted = said.code === null ? [200, 202] : [FAILURES[said.code].http];
  assert.ok(
    wanted.includes(response.status),
    `${operation.name} answered ${response.status} with ${JSON.stringify(said.body)}`,
  );
  await door.close();
  return said;
}

async function askMcp(box: DriftBox, operation: Operation, input: Input): Promise<Said> {
  assert.ok(operation.tool !== false);
  const [near, far] = InMemoryTransport.createLinkedPair();
  const stop = new AbortController();
  const served = serveMcpStdio({
    invoker: local(box),
    clock: box.clock,
    signal: stop.signal,
    onError: (error) => box.report(error, "mcp"),
    transport: far,
  });
  const client = new Client({ name: "drift", version: "0" });
  // The pair is made by the server package, whose types are the client's by shape, not by name.
  await box.settle(client.connect(near as never));
  const result = await box.settle(client.callTool({ name: operation.tool.name, arguments: { ...input } }));
  await client.close();
  stop.abort();
  await served;
  const [content] = result.content;
  assert.ok(content?.type === "text");
  const said = saidOf(JSON.parse(content.text));
  assert.equal(result.isError === true, said.code !== null);
  if (said.code === null) assert.deepEqual(result.structuredContent, said.body);
  return said;
}

function local({ services, report }: DriftBox): Invoker {
  return localInvoker({ services: () => services, scopes: ALL_SCOPES, report });
}

async function askCli(box: DriftBox, operation: Operation, input: Input): Promise<Said> {
  return await box.settle(runJson(box, { operation, input, invoker: () => Promise.resolve(local(box)) }));
}

async function askRemoteCli(box: DriftBox, operation: Operation, input: Input): Promise<Said> {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap-drift-" });
  const path = `${folder}/door.sock`;
  const door = doorOf(box);
  const server = Deno.serve({ path, onListen() {} }, async (request, { remoteAddr }) => {
    // While the door works, the box's time may pass; before and after it only bytes travel.
    box.busy?.(false);
    const response = await door.fetch(request, peerOf(remoteAddr));
    box.busy?.(!/event-stream/.test(response.headers.get("content-type") ?? ""));
    return response;
  });
  const invoker = async () => {
    const { invoker, tried } = await findService({ socketPaths: [path], url: null, token: null }, systemClock());
    assert.ok(invoker !== null, tried.join("; "));
    return invoker;
  };
  try {
    box.busy?.(true);
    return await box.settle(runJson(box, { operation, input, invoker }).finally(() => box.busy?.(false)));
  } finally {
    await door.close();
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
}

async function runJson(
  box: DriftBox,
  call: { readonly operation: Operation; readonly input: Input; readonly invoker: () => Promise<Invoker> },
): Promise<Said> {
  const { cli } = call.operation;
  assert.ok(cli !== false);
  const flags = Object.entries(call.input).flatMap(([name, value]) => flagOf(name.replaceAll("_", "-"), value));
  const nobody = () => Promise.reject(new Error("no operation needs them"));
  let stdout = "";
  const exit = await runCli([...cli.words, ...flags, "--json"], {
    version: "0",
    output: { stdout: (text) => void (stdout += text), stderr() {}, isTerminal: false },
    signal: new AbortController().signal,
    report: box.report,
    invoker: call.invoker,
    commands: ownCommands(() => nobody),
    serviceFlags: {},
  });
  const said = saidOf(JSON.parse(stdout));
  assert.equal(exit, said.code === null ? cli.exit?.(said.body) ?? 0 : FAILURES[said.code].exit);
  return said;
}

function flagOf(name: string, value: unknown): readonly string[] {
  if (typeof value === "boolean") return [value ? `--${name}` : `--no-${name}`];
  if (Array.isArray(value)) return value.flatMap((item) => [`--${name}`, String(item)]);
  return [`--${name}=${String(value)}`];
}
