import { type LoadReply, NOTHING_TOLD, type OllamaApi, type RunnerTold } from "../../lib/model/ports.ts";
import type { InstalledModel, ResidentModel } from "../../lib/model/tenants.ts";
import { UpstreamError, type UpstreamErrorKind } from "../../lib/upstream/upstream_error.ts";

export type OllamaVerb = "version" | "tags" | "ps" | "weightBlobs";

/** A hand-written Ollama behind the port: lists that a test sets, failures that it chooses. */
export class FakeOllama implements OllamaApi {
  readonly url = "http://127.0.0.1:11434";
  readonly isRemote = false;
  readonly calls: string[] = [];
  /** How each kind of call fails from now on; a missing one succeeds. */
  readonly failures = new Map<OllamaVerb, { kind: UpstreamErrorKind; status?: number }>();
  resident: readonly ResidentModel[] = [];
  installed: readonly InstalledModel[] = [];
  versionText = "0.24.0";

  version(): Promise<string> {
    return this.#answer("version", this.versionText);
  }

  tags(): Promise<readonly InstalledModel[]> {
    return this.#answer("tags", this.installed);
  }

  ps(): Promise<readonly ResidentModel[]> {
    return this.#answer("ps", this.resident);
  }

  weightBlobs(model: string): Promise<readonly string[]> {
    return this.#answer("weightBlobs", [`sha256-of-${model}`], model);
  }

  unload(): Promise<void> {
    throw new Error("Cannot unload: a watcher only watches");
  }

  load(): Promise<LoadReply> {
    throw new Error("Cannot load: a watcher only watches");
  }

  runnerActivity(): Promise<RunnerTold> {
    return Promise.resolve(NOTHING_TOLD);
  }

  callsOf(verb: OllamaVerb): number {
    return this.calls.filter((call) => call.startsWith(verb)).length;
  }

  #answer<T>(verb: OllamaVerb, value: T, detail = ""): Promise<T> {
    this.calls.push(`${verb} ${detail}`.trim());
    const failure = this.failures.get(verb);
    if (failure === undefined) return Promise.resolve(value);
    const { kind, status = null } = failure;
    return Promise.reject(
      new UpstreamError(`ask for ${verb}`, { url: this.url, kind, status, reason: `test says ${kind}` }),
    );
  }
}

export function installedModel(name: string, changes: Partial<InstalledModel> = {}): InstalledModel {
  return {
    name,
    digest: `digest-${name}`,
    sizeBytes: 9e9,
    modifiedAtMs: null,
    family: "llama",
    parameterSize: null,
    quantization: null,
    format: "gguf",
    isRemote: false,
    ...changes,
  };
}

export function residentModel(name: string): ResidentModel {
  return {
    name,
    digest: `digest-${name}`,
    sizeBytes: 9e9,
    sizeVramBytes: 9e9,
    expiresAtMs: null,
    contextLength: 4096,
  };
}
