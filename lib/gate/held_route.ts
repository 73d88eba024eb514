/** Which requests make a tenant take VRAM: these are offered to the arbiter, all others pass at once. */
import type { Tenant } from "../model/tenants.ts";
import { isLoopbackHost } from "../upstream/locality.ts";
import { type RequestHead, valueOf } from "./http_head.ts";

/** Measured (facts of both upstreams): no other route of theirs loads anything. */
const HELD: Readonly<Record<Tenant, readonly string[]>> = {
  ollama: [
    "/api/generate",
    "/api/chat",
    "/api/embed",
    "/api/embeddings",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/images/generations",
  ],
  comfyui: ["/prompt", "/api/prompt"],
};

/** The path, as the upstream's router reads it, of a request that must be offered; null for one that may pass. */
export function heldPath(tenant: Tenant, head: RequestHead): string | null {
  if (head.method !== "POST" || isForeign(tenant, head)) return null;
  const path = pathOf(head.target);
  return path !== null && HELD[tenant].includes(path) ? path : null;
}

/** Without its query, percent-decoded; null where it can't be decoded. */
export function pathOf(target: string): string | null {
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").replace(/[?#].*$/, "");
  try {
    return decodeURIComponent(path);
  } catch {
    // Neither upstream routes it to anything.
    return null;
  }
}

/** Schemes of programs on this machine that Ollama lets in by default. */
const OWN_SCHEMES = /^(?:app|file|tauri|vscode-webview|vscode-file|[a-z]+-extension):/;

/**
 * A page of another site asks: the upstream refuses it, and nobody may lose memory to a request that is refused. One
 * that its own settings let in all the same passes as it would without a gate.
 */
function isForeign(tenant: Tenant, { fields }: RequestHead): boolean {
  const origin = valueOf(fields, "origin");
  if (origin === null || origin === "" || origin === "null") return false;
  const host = (valueOf(fields, "host") ?? "").toLowerCase();
  if (!URL.canParse(origin)) return false;
  const { hostname, host: named, protocol } = new URL(origin);
  if (named === "" || named === host) return false;
  if (tenant === "comfyui") {
    // It compares ports only where both sides name one.
    const hasBothPorts = /:\d+$/.test(host) && /:\d+$/.test(named);
    return hasBothPorts || hostname !== host.replace(/:\d+$/, "");
  }
  return !OWN_SCHEMES.test(protocol) && !isLoopbackHost(hostname);
}
