import { joinSignals } from "../model/join_signals.ts";
import type { Exchange, HeaderPairs } from "./exchange.ts";
import type { Ground } from "./ground.ts";
import {
  embedding,
  isNewGeneration,
  type Json,
  metricFields,
  nanoseconds,
  type OllamaVersion,
  psRow,
  showBody,
  tagRow,
  timestamp,
  withoutZeros,
} from "./ollama_bodies.ts";
import { generate, type GenerationEnd, RunnerDied } from "./ollama_generation.ts";
import { aliasOf, type LabModel, parseName } from "./ollama_models.ts";
import type { OllamaQuirks } from "./ollama_quirks.ts";
import { type AskBody, isUnload, parseAsk, parseBody } from "./ollama_request.ts";
import { type Loaded, OllamaRefusal, type OllamaScheduler } from "./ollama_scheduler.ts";
import { draw } from "./timing.ts";

export interface OllamaApiParts {
  readonly ground: Ground;
  readonly version: OllamaVersion;
  readonly scheduler: OllamaScheduler;
  readonly quirks: OllamaQuirks;
  /** The store; deleting and copying change it. */
  readonly installed: LabModel[];
  /** Aborts with the server's process. */
  readonly life: AbortSignal;
}

export type Route = (exchange: Exchange) => Promise<void>;
type Kind = "generate" | "chat";

const JSON_TYPE: HeaderPairs = [["Content-Type", "application/json; charset=utf-8"]];
const STREAM_TYPE: HeaderPairs = [["Content-Type", "application/x-ndjson"]];
const TEXT_TYPE: HeaderPairs = [["Content-Type", "text/plain; charset=utf-8"]];
const RUNNER_DIED = "an error was encountered while running the model: unexpected EOF";

/** The routes of the native API: method and path → what answers. */
export class OllamaRoutes {
  readonly #parts: OllamaApiParts;

  constructor(parts: OllamaApiParts) {
    this.#parts = parts;
  }

  get table(): Readonly<Record<string, Readonly<Record<string, Route>>>> {
    return {
      "/": { GET: (exchange) => exchange.send({ status: 200, headers: TEXT_TYPE, body: "Ollama is running" }) },
      "/api/version": { GET: (exchange) => this.#json(exchange, { version: this.#parts.version }) },
      "/api/tags": { GET: (exchange) => this.#tags(exchange) },
      "/api/ps": { GET: (exchange) => this.#ps(exchange) },
      "/api/show": { POST: (exchange) => this.#show(exchange) },
      "/api/generate": { POST: (exchange) => this.#run(exchange, "generate") },
      "/api/chat": { POST: (exchange) => this.#run(exchange, "chat") },
      "/api/embed": { POST: (exchange) => this.#embed(exchange, false) },
      "/api/embeddings": { POST: (exchange) => this.#embed(exchange, true) },
      "/api/copy": { POST: (exchange) => this.#copy(exchange) },
      "/api/delete": { DELETE: (exchange) => this.#delete(exchange) },
    };
  }

  /** The stored model of that name in any of its forms; null when there is none. */
  find(name: string): LabModel | null {
    const wanted = parseName(name)?.toLowerCase();
    return this.#parts.installed.find((model) => model.name.toLowerCase() === wanted) ?? null;
  }

  async #tags(exchange: Exchange): Promise<void> {
    const newest = [...this.#parts.installed].sort((a, b) => b.modifiedAtMs - a.modifiedAtMs);
    await this.#json(exchange, { models: newest.map((model) => tagRow(model, this.#parts.version)) });
  }

  async #ps(exchange: Exchange): Promise<void> {
    const { ground, quirks, scheduler, version, life } = this.#parts;
    if (quirks.psStallMs > 0) await ground.clock.sleep(quirks.psStallMs, life);
    // 0.33 takes each runner's lock, which its end holds; 0.24 takes none and still lists what is being ended.
    if (isNewGeneration(version)) await Promise.all(scheduler.loaded.map((loaded) => loaded.ending));
    await scheduler.awaitMlx();
    const nowMs = ground.clock.wallMs();
    const rows = scheduler.loaded
      .map((loaded) => ({ row: psRow(loaded, nowMs), atMs: loaded.expiresAtMs ?? nowMs + loaded.keepAliveMs }))
      .sort((a, b) => b.atMs - a.atMs)
      .map(({ row }) => row);
    await this.#json(exchange, { models: rows });
  }

  async #show(exchange: Exchange): Promise<void> {
    const name = stringField(parseBody(exchange.text(), "ShowRequest"), "model");
    if (name === "") throw new OllamaRefusal(400, "model is required");
    const model = this.find(name);
    const shown = isNewGeneration(this.#parts.version) ? parseName(name) ?? name : name;
    if (model === null) throw new OllamaRefusal(404, `model '${shown}' not found`);
    await this.#json(exchange, showBody(model, this.#parts.version));
  }

  async #copy(exchange: Exchange): Promise<void> {
    const body = parseBody(exchange.text(), "CopyRequest");
    const source = this.find(stringField(body, "source"));
    if (source === null) throw new OllamaRefusal(404, `model "${stringField(body, "source")}" not found`);
    this.#parts.installed.push(aliasOf(source, stringField(body, "destination")));
    await exchange.send({ status: 200 });
  }

  /** Deletes from the store alone: a loaded model stays loaded, and nobody can name it any more. */
  async #delete(exchange: Exchange): Promise<void> {
    const name = stringField(parseBody(exchange.text(), "DeleteRequest"), "model");
    const model = this.find(name);
    if (model === null) throw new OllamaRefusal(404, `model '${name}' not found`);
    this.#parts.installed.splice(this.#parts.installed.indexOf(model), 1);
    await exchange.send({ status: 200 });
  }

  async #run(exchange: Exchange, kind: Kind): Promise<void> {
    const { ground, scheduler } = this.#parts;
    const startMs = ground.clock.monotonicMs();
    const ask = parseAsk(exchange.text(), kind === "chat" ? "ChatRequest" : "GenerateRequest");
    const model = this.#wanted(ask, kind);
    const prompt = promptOf(ask, kind);
    if (prompt === "" && isUnload(ask.keepAlive)) {
      // The reply and the order to unload go together; the effect comes later, and nobody tells when.
      await ground.clock.sleep(draw(ground.timing.unloadReplyMs, ground.random));
      // While a GGUF model loads it does nothing; while an MLX model loads it waits, and then takes effect.
      await scheduler.awaitMlx(model);
      scheduler.unload(model);
      return this.#json(exchange, this.#emptyAnswer(ask, { kind, reason: "unload" }));
    }
    if (model.isEmbedding) throw new OllamaRefusal(400, `"${ask.model}" does not support ${kind}`);
    const loaded = await this.#acquire(exchange, { ask, model });
    try {
      await this.#ping(exchange);
      const loadMs = ground.clock.monotonicMs() - startMs;
      if (prompt === "") return await this.#json(exchange, this.#emptyAnswer(ask, { kind, reason: "load" }));
      await this.#generate(exchange, { ask, kind, prompt, loaded, startMs, loadMs });
    } finally {
      scheduler.release(loaded);
    }
  }

  #wanted(ask: AskBody, kind: Kind): LabModel {
    if (ask.model === "" && kind === "chat") throw new OllamaRefusal(400, "model is required");
    if (ask.model !== "" && parseName(ask.model) === null) throw new OllamaRefusal(400, "invalid model name");
    const model = this.find(ask.model);
    if (model === null) throw new OllamaRefusal(404, `model '${ask.model}' not found`);
    return model;
  }

  #acquire(exchange: Exchange, { ask, model }: { readonly ask: AskBody; readonly model: LabModel }): Promise<Loaded> {
    const { options, keepAlive } = ask;
    return this.#parts.scheduler.acquire({ model, options, keepAlive, signal: exchange.hungUp });
  }

  /** 0.24 asks the runner before each use, 0.33 only looks at its own books. */
  #ping(exchange: Exchange): Promise<void> {
    const { ground, version } = this.#parts;
    const ms = isNewGeneration(version) ? ground.random.between(0.6, 0.9) : ground.random.between(3.8, 5.7);
    return ground.clock.sleep(ms, exchange.hungUp);
  }

  async #generate(exchange: Exchange, job: {
    readonly ask: AskBody;
    readonly kind: Kind;
    readonly prompt: string;
    readonly loaded: Loaded;
    readonly startMs: number;
    readonly loadMs: number;
  }): Promise<void> {
    const { ground, quirks, version, life } = this.#parts;
    const { ask, kind, prompt, loaded } = job;
    using ends = joinSignals(exchange.hungUp, life);
    const { signal } = ends;
    let sent = 0;
    const onToken = async (token: string) => {
      if (!ask.isStreamed) return;
      if (sent === 0) await exchange.begin(200, STREAM_TYPE);
      if (sent === quirks.endsWithoutDoneAfter) throw new StreamEnded();
      sent += 1;
      await exchange.chunk(`${JSON.stringify(this.#frame(ask, { kind, text: token }))}\n`);
    };
    try {
      const end = await generate(ground, { loaded, prompt, maxTokens: ask.maxTokens, signal }, onToken);
      const totalMs = ground.clock.monotonicMs() - job.startMs;
      const metrics = metricFields({ ...end, totalMs, loadMs: job.loadMs }, version);
      const last = this.#lastFrame(ask, { kind, end, metrics });
      if (!ask.isStreamed) return await this.#json(exchange, last);
      await exchange.begin(200, STREAM_TYPE);
      await exchange.chunk(`${JSON.stringify(last)}\n`);
      await exchange.end();
    } catch (error) {
      if (error instanceof StreamEnded) return await exchange.end();
      if (!(error instanceof RunnerDied)) throw error;
      // Once a frame is out the status stands, and the error comes in the stream, without `done`.
      if (!exchange.hasBegun) throw new OllamaRefusal(500, RUNNER_DIED);
      await exchange.chunk(`${JSON.stringify({ error: RUNNER_DIED })}\n`);
      await exchange.end();
    }
  }

  #head(ask: AskBody): Json {
    return { model: ask.model, created_at: timestamp(this.#parts.ground.clock.wallMs()) };
  }

  #frame(ask: AskBody, { kind, text }: { readonly kind: Kind; readonly text: string }): Json {
    return { ...this.#head(ask), ...content(kind, text), done: false };
  }

  #emptyAnswer(ask: AskBody, { kind, reason }: { readonly kind: Kind; readonly reason: "load" | "unload" }): Json {
    return { ...this.#head(ask), ...content(kind, ""), done: true, done_reason: reason };
  }

  #lastFrame(
    ask: AskBody,
    { kind, end, metrics }: { readonly kind: Kind; readonly end: GenerationEnd; readonly metrics: Json },
  ): Json {
    const context = kind === "generate" && ask.fields["raw"] !== true ? { context: contextOf(end) } : {};
    const text = ask.isStreamed ? "" : end.text;
    return { ...this.#head(ask), ...content(kind, text), done: true, done_reason: end.reason, ...context, ...metrics };
  }

  /** Embedding loads in every case, and an unload comes after it: there is no shortcut as for generate. */
  async #embed(exchange: Exchange, isLegacy: boolean): Promise<void> {
    const { ground, version, scheduler } = this.#parts;
    const startMs = ground.clock.monotonicMs();
    const ask = parseAsk(exchange.text(), isLegacy ? "EmbeddingRequest" : "EmbedRequest");
    if (ask.model === "") throw isLegacy ? new OllamaRefusal(400, "model is required") : notFoundInQuotes("");
    const model = this.find(ask.model);
    if (model === null) throw notFoundInQuotes(ask.model);
    const texts = textsOf(ask.fields[isLegacy ? "prompt" : "input"]);
    const loaded = await this.#acquire(exchange, { ask, model }).catch((error) => {
      // A load that fails while embedding is the client's fault, by status.
      throw error instanceof OllamaRefusal && error.status === 500 && !isLegacy
        ? new OllamaRefusal(400, error.message)
        : error;
    });
    try {
      await this.#ping(exchange);
      const loadMs = ground.clock.monotonicMs() - startMs;
      if (texts.length === 0) return await this.#json(exchange, isLegacy ? { embedding: [] } : emptyEmbed(ask));
      if (!model.isEmbedding && isNewGeneration(version)) {
        throw new OllamaRefusal(501, "This server does not support embeddings. Start it with `--embeddings`");
      }
      await ground.clock.sleep(8 * texts.length, exchange.hungUp);
      const vectors = texts.map((text) => embedding(text, model.embeddingLength));
      if (isLegacy) return await this.#json(exchange, { embedding: vectors[0] });
      const totalMs = ground.clock.monotonicMs() - startMs;
      const durations = { total_duration: nanoseconds(totalMs), load_duration: nanoseconds(loadMs) };
      const counts = withoutZeros({ ...durations, prompt_eval_count: texts.join(" ").length });
      await this.#json(exchange, { model: ask.model, embeddings: vectors, ...counts });
    } finally {
      scheduler.release(loaded);
    }
  }

  #json(exchange: Exchange, body: Json): Promise<void> {
    return exchange.send({ status: 200, headers: JSON_TYPE, body: JSON.stringify(body) });
  }
}

/** The quirk of a stream that stops without its last frame. */
class StreamEnded extends Error {}

function content(kind: Kind, text: string): Json {
  return kind === "chat" ? { message: { role: "assistant", content: text } } : { response: text };
}

/** Empty: nothing to answer, so the request only loads or unloads. */
function promptOf(ask: AskBody, kind: Kind): string {
  if (kind === "generate") return stringField(ask.fields, "prompt");
  const messages = ask.fields["messages"];
  if (!Array.isArray(messages)) return "";
  return messages.map((message) => stringField(message, "content") || " ").join("\n");
}

function textsOf(input: unknown): readonly string[] {
  const texts = Array.isArray(input) ? input : [input];
  return texts.filter((text): text is string => typeof text === "string" && text !== "");
}

function emptyEmbed(ask: AskBody): Json {
  return { model: ask.model, embeddings: [] };
}

function notFoundInQuotes(name: string): OllamaRefusal {
  const error = name === "" ? "model '' not found" : `model "${name}" not found, try pulling it first`;
  return new OllamaRefusal(404, error);
}

function stringField(fields: unknown, name: string): string {
  if (typeof fields !== "object" || fields === null) return "";
  // as: an object of unknown keys, of which one is looked at.
  const value = (fields as Json)[name];
  return typeof value === "string" ? value : "";
}

/** Token numbers, as `context` carries them. */
function contextOf(end: GenerationEnd): number[] {
  return Array.from({ length: end.promptTokens + end.tokens }, (_, index) => 259 + (index * 37) % 100);
}
