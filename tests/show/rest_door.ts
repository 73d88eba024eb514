/** A REST door over a fake box, asked without a socket; its peer is whom the test says. */
import { DEFAULT_ACCESS } from "../../lib/show/access.ts";
import type { AccessPolicy, Peer } from "../../lib/show/access.ts";
import type { Assets } from "../../lib/show/assets.ts";
import { openRest } from "../../lib/show/rest.ts";
import type { RestDoor } from "../../lib/show/rest.ts";
import { fakeBox } from "../operations/fake_box.ts";
import type { FakeBox } from "../operations/fake_box.ts";

export const LOCAL: Peer = { transport: "tcp", hostname: "127.0.0.1" };
export const SOCKET: Peer = { transport: "unix" };
export const STRANGER: Peer = { transport: "tcp", hostname: "192.0.2.7" };

export const ASSETS: Assets = new Map<string, string | Uint8Array>([
  ["index.html", "<!doctype html><title>HyperSwap</title>"],
  ["assets/app-3f2a91bc.js", `console.log(${JSON.stringify("x".repeat(2000))})`],
  ["favicon.svg", "<svg/>"],
]);

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; fails where it isn't JSON. */
  // deno-lint-ignore no-explicit-any -- a test reads whatever the door wrote
  readonly json: any;
}

export interface OpenDoor {
  readonly box: FakeBox;
  readonly door: RestDoor;
  request(line: string, options?: AskOptions): Promise<Response>;
  /** `GET /api/stats`, answered and read. */
  ask(line: string, options?: AskOptions): Promise<Answer>;
}

export interface AskOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly peer?: Peer;
  readonly signal?: AbortSignal;
}

export function openDoor(
  options: { readonly access?: Partial<AccessPolicy>; readonly box?: FakeBox; readonly maxStreams?: number } = {},
): OpenDoor {
  const box = options.box ?? fakeBox();
  const access = { ...DEFAULT_ACCESS, ...options.access };
  const door = openRest({
    services: box.services,
    clock: box.clock,
    access: () => access,
    assets: ASSETS,
    report: box.report,
    ...(options.maxStreams === undefined ? {} : { maxStreams: options.maxStreams }),
  });
  const request = (line: string, { body, headers = {}, peer = LOCAL, signal }: AskOptions = {}) => {
    const [method = "GET", path = "/"] = line.split(" ");
    const isRaw = typeof body === "string" || body instanceof Blob;
    return door.fetch(
      new Request(`http://127.0.0.1:9090${path}`, {
        method,
        headers: {
          host: "127.0.0.1:9090",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      }),
      peer,
    );
  };
  return {
    box,
    door,
    request,
    async ask(line, given) {
      const response = await request(line, given);
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        text,
        get json() {
          return JSON.parse(text);
        },
      };
    },
  };
}

/** A purge that goes on until its signal aborts. */
export function endlessPurge({ box }: OpenDoor): Promise<AbortSignal> {
  const going = Promise.withResolvers<AbortSignal>();
  box.answers.purge = ({ signal }) => {
    going.resolve(signal);
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  return going.promise;
}
