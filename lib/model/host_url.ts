/** A server's address as a URL that a client on this machine can use. */

/** An address that means "every one of this machine" is reached over loopback; IPv6 stands in brackets. */
export function hostUrl(hostname: string, port: number): string {
  const host = hostname === "0.0.0.0" ? "127.0.0.1" : hostname === "::" ? "::1" : hostname;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
