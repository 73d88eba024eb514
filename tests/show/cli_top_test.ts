import assert from "node:assert/strict";
import { ALL_SCOPES } from "../../lib/show/access.ts";
import { styleFor, widthOf } from "../../lib/show/cli_output.ts";
import type { ScreenDevice } from "../../lib/show/cli_screen.ts";
import { cliTop } from "../../lib/show/cli_top.ts";
import { topLines } from "../../lib/show/cli_top_view.ts";
import { localInvoker } from "../../lib/show/invoker.ts";
import { type Stats, viewStats } from "../../lib/operations/stats.ts";
import { type FakeBox, fakeBox } from "../operations/fake_box.ts";

const ESCAPE = String.fromCharCode(27);
const LEAVE = `${ESCAPE}[?1049l`;

/** A terminal that a test types on. */
class FakeDevice implements ScreenDevice {
  written = "";
  isRaw = false;
  columns = 100;
  rows = 30;
  resize = () => {};
  terminate = () => {};
  #keys = Promise.withResolvers<string | null>();

  write(text: string): void {
    this.written += text;
  }
  size() {
    return { columns: this.columns, rows: this.rows };
  }
  setRaw(isRaw: boolean): void {
    this.isRaw = isRaw;
  }
  readKeys(): Promise<string | null> {
    return this.#keys.promise;
  }
  onResize(run: () => void) {
    this.resize = run;
    return { stop: () => this.resize = () => {} };
  }
  onEnd(run: () => void) {
    this.terminate = run;
    return { stop: () => this.terminate = () => {} };
  }
  /** Null: the terminal has gone. */
  press(keys: string | null): void {
    const pressed = this.#keys;
    this.#keys = Promise.withResolvers();
    pressed.resolve(keys);
  }
  /** What stands on the screen since it was last drawn. */
  get shown(): string {
    return this.written.split(`${ESCAPE}[H`).at(-1) ?? "";
  }
}

interface Top {
  readonly box: FakeBox;
  readonly device: FakeDevice;
  readonly exit: Promise<number>;
}

async function openTop(): Promise<Top> {
  const box = fakeBox();
  const device = new FakeDevice();
  const exit = cliTop([], {
    device,
    output: { stdout() {}, stderr() {}, isTerminal: true, isPlain: true },
    clock: { sleep: () => Promise.reject(new Error("Nothing is waited for here")) },
    signal: new AbortController().signal,
    invoker: () =>
      Promise.resolve(localInvoker({ services: () => box.services, scopes: ALL_SCOPES, report: box.report })),
  });
  for (let turn = 0; box.subscribers === 0 && turn < 1000; turn++) await Promise.resolve();
  return { box, device, exit };
}

const ENDS: Readonly<Record<string, (device: FakeDevice) => void>> = {
  q: (device) => device.press("q"),
  "Ctrl-C": (device) => device.press(String.fromCharCode(3)),
  Esc: (device) => device.press(ESCAPE),
  "a signal": (device) => device.terminate(),
  "the terminal's end": (device) => device.press(null),
};

for (const [name, quit] of Object.entries(ENDS)) {
  Deno.test(`top ends with ${name}, and the terminal is as it was`, async () => {
    const { box, device, exit } = await openTop();
    assert.ok(device.isRaw);
    assert.match(device.shown, /VRAM +[OCDU?]+/);
    device.press("x"); // any other key changes nothing
    await Promise.resolve();
    quit(device);
    assert.equal(await exit, 0);
    assert.equal(device.isRaw, false);
    assert.ok(device.written.endsWith(LEAVE), "it left its screen behind");
    assert.equal(box.subscribers, 0);
  });
}

Deno.test("top follows the box and the size of its terminal", async () => {
  const { box, device, exit } = await openTop();
  assert.match(device.shown, /ON THE CARD/);
  box.show({ history: [] });
  assert.match(device.shown, /Nothing has happened yet/);
  [device.columns, device.rows] = [40, 6];
  device.resize();
  const lines = device.shown.replaceAll(`${ESCAPE}[2K`, "").split("\r\n");
  assert.ok(lines.length <= 6, String(lines.length));
  for (const line of lines) assert.ok(widthOf(line) <= 40, line);
  assert.match(lines.at(-1) ?? "", /q quits/);
  device.press("q");
  await exit;
});

Deno.test("no size of a terminal is too small or too large", () => {
  const stats: Stats = viewStats(fakeBox().services.live.snapshot());
  for (const columns of [1, 20, 80, 300]) {
    for (const rows of [1, 2, 10, 100]) {
      for (const isPlain of [false, true]) {
        const lines = topLines(stats, { style: styleFor({ isTerminal: true, isPlain }), columns, rows, notice: null });
        assert.ok(lines.length <= rows, `${lines.length} of ${rows}`);
        for (const line of lines) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`);
      }
    }
  }
});

Deno.test("into a pipe goes plain text without colours, and with --json a document a line, until the reader has gone", async () => {
  for (const isJson of [false, true]) {
    const box = fakeBox();
    const gone = new AbortController();
    let text = "";
    const exit = await cliTop(isJson ? ["--json"] : [], {
      device: null,
      output: {
        stdout: (part) => {
          text += part;
          gone.abort();
        },
        stderr() {},
        isTerminal: false,
        gone: gone.signal,
      },
      clock: { sleep: () => Promise.reject(new Error("Nothing is waited for here")) },
      signal: new AbortController().signal,
      invoker: () =>
        Promise.resolve(localInvoker({ services: () => box.services, scopes: ALL_SCOPES, report: box.report })),
    });
    assert.equal(exit, 0);
    assert.ok(!text.includes(ESCAPE));
    if (isJson) assert.equal(JSON.parse(text).gpu.vram_total_gb, 16);
    else assert.match(text, /^HyperSwap {2}Test Card 16 GB/);
  }
});
