/** Requests made from the OpenAPI document: such as it allows, such as it forbids, and such as nobody means well with. */
import { type Schema } from "./schema.ts";

export interface FuzzRequest {
  readonly method: string;
  /** Path and query, as it goes on the wire. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** The operation of the document that this path and method belong to; null where they belong to none. */
  readonly operationId: string | null;
  readonly kind: "valid" | "invalid" | "hostile";
}

export interface Described {
  readonly path: string;
  readonly method: string;
  readonly operation: Schema;
}

/** Every operation of the document. */
export function described(document: Schema): readonly Described[] {
  return Object.entries<Schema>(document.paths).flatMap(([path, item]) =>
    Object.entries<Schema>(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation }))
  );
}

const TEXTS = ["qwen3:14b", "llama3.2:1b", "comfyui", "balanced", "auto", "default", "30m", "2026-12-01T00:00:00Z"];

const HOSTILE = [
  "",
  " ",
  "\u0000",
  "null",
  "../../../../etc/passwd",
  "/dev/zero",
  "/proc/self/mem",
  "__proto__",
  "constructor",
  "toString",
  "<script>alert(1)</script>",
  "'; DROP TABLE events; --",
  "${7*7}",
  "%00",
  "%s%n",
  "x".repeat(20_000),
  "💥".repeat(500),
  "\ud800",
  "a\r\nset-cookie: x=1",
  "1e309",
  "-0",
  "NaN",
  "0x10",
  "9".repeat(400),
  "2026-13-45T99:99:99Z",
  "-271821-04-21T00:00:00Z",
];

const NUMBERS = [0, -0, -1, 0.5, 1e-9, 1e9, 1e15, 1e308, 2 ** 53, -(2 ** 53), 255, 65_536];

export class Generator {
  readonly #operations: readonly Described[];
  readonly #random: () => number;
  /** Operations that wait for the card or the disk: asked less often. */
  readonly #rare: (operationId: string) => boolean;

  constructor(
    document: Schema,
    options: { readonly random: () => number; readonly isRare?: (operationId: string) => boolean },
  ) {
    this.#operations = described(document);
    this.#random = options.random;
    this.#rare = options.isRare ?? (() => false);
  }

  next(): FuzzRequest {
    const kind = this.#pick(["valid", "valid", "invalid", "invalid", "hostile", "hostile", "hostile"] as const);
    const usual = this.#operations.filter(({ operation }) => !this.#rare(operation.operationId));
    const rare = this.#operations.filter(({ operation }) => this.#rare(operation.operationId));
    const isRare = rare.length > 0 && this.#random() < (kind === "valid" ? 0.06 : 0.4);
    const what = this.#pick(isRare ? rare : usual);
    return kind === "hostile" && this.#random() < 0.35 ? this.#misuse(what) : this.#call(what, kind);
  }

  #call({ path, method, operation }: Described, kind: FuzzRequest["kind"]): FuzzRequest {
    const parameters: Schema[] = operation.parameters ?? [];
    const query = new URLSearchParams();
    let target = path;
    for (const { name, in: place, required, schema } of parameters) {
      if (place === "path") target = target.replace(`{${name}}`, this.#pathPart(schema, kind));
      else if (required || this.#random() < 0.5) this.#addTo(query, name, this.#value(schema, kind));
    }
    if (kind !== "valid" && this.#random() < 0.3) {
      query.append(this.#pick(["limit", "__proto__", "", "x y", "id"]), "1");
    }
    if (query.size > 0) target += `?${query}`;
    const schema = operation.requestBody?.content["application/json"].schema;
    const body = schema === undefined ? null : this.#body(schema, kind);
    return {
      method,
      target,
      headers: { ...(body === null ? {} : { "content-type": "application/json" }), ...this.#extraHeaders(kind) },
      body,
      operationId: operation.operationId,
      kind,
    };
  }

  #body(schema: Schema, kind: FuzzRequest["kind"]): string | null {
    if (kind === "hostile" && this.#random() < 0.25) {
      return this.#pick([
        "{",
        "[]",
        "null",
        '"x"',
        "1",
        "\u0000",
        '{"a":1,"a":2}',
        '{"__proto__":{"polluted":true}}',
        '{"constructor":{"prototype":{"x":1}}}',
        `${"[".repeat(5_000)}${"]".repeat(5_000)}`,
        `{"model":"${"x".repeat(70_000)}"}`,
        '{"needed_gb":1e309}',
        "{}{}",
        "\ufeff{}",
      ]);
    }
    // Entries, since `__proto__` is a name like any other here.
    const fields = new Map<string, unknown>();
    const required: string[] = schema.required ?? [];
    for (const [name, own] of Object.entries<Schema>(schema.properties ?? {})) {
      // An alias beside its name contradicts it unless both say the same.
      if (/^the same as/.test(own.description ?? "")) continue;
      const isWanted = required.includes(name) && !(kind === "invalid" && this.#random() < 0.2);
      if (isWanted || this.#random() < 0.5) fields.set(name, this.#value(own, kind));
    }
    if (kind !== "valid" && this.#random() < 0.2) fields.set(this.#pick(HOSTILE), 1);
    // Long work is only started: what it does isn't waited for here.
    if ("wait" in (schema.properties ?? {}) && kind === "valid") fields.set("wait", false);
    return JSON.stringify(Object.fromEntries(fields));
  }

  #value(schema: Schema, kind: FuzzRequest["kind"]): unknown {
    if (kind !== "valid" && this.#random() < 0.6) {
      return this.#pick<unknown>([
        this.#pick(kind === "hostile" ? HOSTILE : TEXTS),
        this.#pick(NUMBERS),
        true,
        null,
        [],
        {},
        [[]],
        { a: { b: [1] } },
      ]);
    }
    return this.#fitting(schema);
  }

  #fitting(schema: Schema): unknown {
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return this.#pick(schema.enum);
    if (schema.anyOf !== undefined) return this.#fitting(this.#pick(schema.anyOf));
    switch (Array.isArray(schema.type) ? this.#pick(schema.type as string[]) : schema.type) {
      case "boolean":
        return this.#random() < 0.5;
      case "integer":
      case "number": {
        const least = schema.minimum ?? schema.exclusiveMinimum ?? 0;
        const most = schema.maximum ?? least + 40;
        const value = least + this.#random() * (most - least);
        return schema.type === "integer" ? Math.ceil(value) : Math.max(value, least + 0.01);
      }
      case "array":
        return Array.from({ length: 1 + Math.floor(this.#random() * 3) }, () => this.#fitting(schema.items ?? {}));
      case "null":
        return null;
      default:
        return this.#pick(TEXTS);
    }
  }

  #addTo(query: URLSearchParams, name: string, value: unknown): void {
    for (const item of Array.isArray(value) ? value : [value]) {
      query.append(name, typeof item === "object" ? JSON.stringify(item) : String(item));
    }
  }

  #pathPart(schema: Schema, kind: FuzzRequest["kind"]): string {
    const value = kind === "hostile" ? this.#pick(HOSTILE) : this.#fitting(schema);
    return encodeURIComponent(String(value).toWellFormed().slice(0, 2_000)) || "%20";
  }

  #extraHeaders(kind: FuzzRequest["kind"]): Record<string, string> {
    if (kind !== "hostile" || this.#random() < 0.5) return {};
    return this.#pick<Record<string, string>>([
      { "content-type": "text/plain" },
      { "content-type": "application/x-www-form-urlencoded" },
      { "content-type": "application/json; charset=utf-16" },
      { authorization: "Bearer nothing" },
      { authorization: "Basic eDp5" },
      { cookie: "hyperswap_9090=../..; a==;;=" },
      { "if-none-match": '*, W/"x", "' },
      { "accept-encoding": "gzip;q=0, *" },
      { "accept-encoding": "gzip, deflate, br" },
      { "last-event-id": "0000-99999999999999999999" },
      { origin: "http://evil.example" },
      { "sec-fetch-site": "cross-site" },
      { "x-forwarded-for": "10.0.0.1" },
      { accept: "text/html" },
      { "x-http-method-override": "DELETE" },
    ]);
  }

  /** Another method, another path, a path nobody wrote. */
  #misuse({ path, method }: Described): FuzzRequest {
    const plain = path.replaceAll(/\{\w+\}/g, "x");
    const target = this.#pick([
      plain,
      `${plain}/`,
      `${plain}//`,
      `/${plain}`,
      `${plain}/../stats`,
      `${plain}%00`,
      `${plain}%2e%2e%2f`,
      `${plain};jsessionid=1`,
      plain.toUpperCase(),
      "/api",
      "/api/",
      "/api/__proto__",
      "/%ff%fe",
      "/..%2f..%2fetc%2fpasswd",
      "/docs/../../main.ts",
      "/docs/%2e%2e/index.html",
      "/login/../api/stats",
      `${plain}?${"a=1&".repeat(500)}`,
      `${plain}?%`,
    ]);
    const other = this.#pick(
      ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"].filter((name) => name !== method),
    );
    const takesBody = other !== "GET" && other !== "HEAD";
    return {
      method: other,
      target,
      headers: takesBody ? { "content-type": "application/json" } : {},
      body: takesBody && this.#random() < 0.5 ? "{}" : null,
      operationId: null,
      kind: "hostile",
    };
  }

  #pick<T>(from: readonly T[]): T {
    // as: no list here is empty.
    return from[Math.floor(this.#random() * from.length)] as T;
  }
}
