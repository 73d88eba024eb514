/** Whether a URL names this machine: unloading on another one frees nothing here. */

/** True for names and addresses that can only mean this machine, as a URL's `hostname` spells them. */
export function isLoopbackHost(hostname: string): boolean {
  const host = hostname.toLowerCase().replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  // URL has put IPv4 into dotted form already (127.1 → 127.0.0.1), and mapped addresses into hex (::ffff:7f00:1).
  if (/^127\.\d+\.\d+\.\d+$/.test(host) || /^::ffff:7f[0-9a-f]{2}:/.test(host)) return true;
  return host === "::1" || isAnyAddress(host);
}

/** 0.0.0.0 and :: are where a server listens; as a target they mean this machine. */
function isAnyAddress(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

/**
 * True when `url` names another host. `localHosts`: this machine's own names and addresses besides loopback, which
 * only the caller can list.
 */
export function isRemoteUrl(url: string, localHosts: readonly string[] = []): boolean {
  const { hostname } = new URL(url);
  if (isLoopbackHost(hostname)) return false;
  const bare = hostname.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return !localHosts.some((host) => host.toLowerCase() === bare);
}

/** The URL as a client can use it: no trailing slash, query or fragment, and a listen-anywhere address made loopback. */
export function clientUrl(url: string): string {
  const parsed = new URL(url);
  if (parsed.hostname === "0.0.0.0") parsed.hostname = "127.0.0.1";
  if (parsed.hostname === "[::]") parsed.hostname = "[::1]";
  return `${parsed.protocol}//${parsed.host}${parsed.pathname.replace(/\/+$/, "")}`;
}

/** The TCP port that a URL means. */
export function portOf(url: string): number {
  const { port, protocol } = new URL(url);
  if (port !== "") return Number(port);
  return protocol === "https:" || protocol === "wss:" ? 443 : 80;
}
