/** `hyperswap restore` as a process, without a service: what helps beside an owner that hangs. After a kill: service_kill_test. */
import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { openNvml } from "../../ffi/nvml.ts";
import { openCardJournal } from "../../lib/act/card_journal.ts";
import { CardWriter } from "../../lib/act/card_writer.ts";
import { takeLock } from "../../lib/system/owner_lock.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";
import { STUB_STOCK, StubCard } from "../stub/stub_card.ts";
import { ROOT } from "../tasks/tools.ts";

interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A card that an owner left changed, and whose other levers somebody else has set. */
async function withLeftCard(stub: Stub, run: (card: StubCard, dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "restore-" });
  const card = new StubCard(stub.path);
  try {
    await Deno.mkdir(`${dir}/state`);
    card.write({ coreOffset: 77 });
    {
      using nvml = openNvml({ paths: [stub.path], readText: () => "", allowsChanges: true });
      const device = nvml.deviceByIndex(0);
      const journal = openCardJournal(`${dir}/state`);
      const clock = { wallMs: () => 0 };
      new CardWriter({ nvml, device, uuid: nvml.uuid(device), name: "stub", journal, clock }).apply(
        { power_limit_w: 370, fan: 60, lock_core_mhz: 2_400, mem_offset_mhz: 300 },
        { by: "profile", profile: "comfy", text: "ComfyUI works" },
      );
    }
    await run(card, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function restore(stub: Stub, dir: string, flags: readonly string[]): Promise<Answer> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", "--unstable-raw-imports", "main.ts", "restore", ...flags],
    cwd: ROOT,
    env: {
      HYPERSWAP_SERVER_STATE_DIR: `${dir}/state`,
      HYPERSWAP_SERVER_SOCKET: `${dir}/none.sock`,
      // Nobody listens there.
      HYPERSWAP_SERVER_PORT: "1",
      HYPERSWAP_GPU_NVML: stub.path,
    },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

stubTest(
  "restore beside an owner that hangs waits for its lock, puts every lever to stock, and says so",
  async (stub) => {
    await withLeftCard(stub, async (card, dir) => {
      using libc = openLibc();
      const owner = { pid: 4711, url: "http://127.0.0.1:1", socket: null, since: "2026-01-01T00:00:00.000Z" };
      using _held = takeLock(`${dir}/state/owner.lock`, libc, owner);
      const { code, stdout, stderr } = await restore(stub, dir, ["--json"]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(card.levers(), STUB_STOCK);
      const { message, levers } = JSON.parse(stdout);
      assert.match(message, /Done without the owner's lock: pid 4711 holds it and did not answer within 2 s/);
      assert.equal(levers.length, 6);
    });
  },
);
