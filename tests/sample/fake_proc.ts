import type { Proc, ProcEntry } from "../../lib/model/ports.ts";

/** Processes as a test says they are, behind the port. */
export class FakeProc implements Proc {
  readonly ticksPerSecond = 100;
  readonly #entries = new Map<number, ProcEntry>();
  readonly #listeners = new Map<number, readonly number[]>();
  /** How often descriptors were searched: the expensive part. */
  searches = 0;

  /** Adds or replaces a process; start time = pid unless told. */
  put(pid: number, changes: Partial<ProcEntry> = {}): ProcEntry {
    const entry: ProcEntry = { ...DEFAULTS, pid, startTime: pid, ...this.#entries.get(pid), ...changes };
    this.#entries.set(pid, entry);
    return entry;
  }

  gone(pid: number): void {
    this.#entries.delete(pid);
    for (const [port, pids] of this.#listeners) this.#listeners.set(port, pids.filter((other) => other !== pid));
  }

  listen(port: number, ...pids: number[]): void {
    this.#listeners.set(port, pids);
  }

  read(path: string): string {
    throw new Error(`Cannot read ${path}: the fake has no files`);
  }

  process(pid: number): ProcEntry | null {
    return this.#entries.get(pid) ?? null;
  }

  pids(): readonly number[] {
    return [...this.#entries.keys()];
  }

  list(): readonly ProcEntry[] {
    return [...this.#entries.values()];
  }

  listeners(port: number): readonly number[] {
    this.searches += 1;
    return this.#listeners.get(port) ?? [];
  }
}

const DEFAULTS: Omit<ProcEntry, "pid" | "startTime"> = {
  parentPid: 1,
  state: "S",
  name: "bash",
  args: ["-bash"],
  exe: "/usr/bin/bash",
  cwd: "/home/ann",
  cgroup: "/user.slice",
  cpuTicks: 0,
};

export const BLOB = `sha256-${"ab".repeat(32)}`;
const STORE = "/usr/share/ollama/.ollama/models/blobs";

/** Command lines as the real programs have them. */
export const ARGS = {
  ollamaServe: ["/usr/local/bin/ollama", "serve"],
  ollamaRunner: ["/usr/local/bin/ollama", "runner", "--model", `${STORE}/${BLOB}`, "--port", "40001"],
  newEngine: ["/usr/local/bin/ollama", "runner", "--ollama-engine", "--model", `${STORE}/${BLOB}`, "--port", "40002"],
  mlx: ["/usr/local/bin/ollama", "runner", "--mlx-engine", "--model", "qwen3:27b", "--port", "40003"],
  llamaServer:
    `/usr/local/lib/ollama/llama-server --model ${STORE}/${BLOB} --port 40004 --host 127.0.0.1 --no-webui --offline -c 4096 -np 1`
      .split(" "),
  discovery: "/usr/local/lib/ollama/llama-server --port 40005 --no-webui --offline --verbose".split(" "),
  listDevices: ["/usr/local/lib/ollama/llama-server", "--list-devices"],
  oldServer: ["/tmp/ollama/runners/cuda_v12/ollama_llama_server", "--model", `${STORE}/${BLOB}`, "--port", "40006"],
  comfy: ["/opt/venv/bin/python", "-s", "main.py", "--listen", "127.0.0.1", "--port", "8188"],
} as const;
