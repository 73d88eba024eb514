/** A whole terminal for a view that repeats: drawn in place on a screen of its own, and given back on every way out. */

const ESCAPE = String.fromCharCode(27);
const CTRL_C = String.fromCharCode(3);
/** Alternate screen, cursor hidden, no wrapping of what is too long. */
const ENTER = `${ESCAPE}[?1049h${ESCAPE}[?25l${ESCAPE}[?7l`;
const LEAVE = `${ESCAPE}[?7h${ESCAPE}[?25h${ESCAPE}[?1049l`;
const HOME = `${ESCAPE}[H`;
/** Before a line, not after it: in the last column the terminal would take its last letter. */
const CLEAR_LINE = `${ESCAPE}[2K`;
const REST_OF_SCREEN = `${ESCAPE}[J`;

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/** What a screen needs of the terminal; Deno's own in the program. */
export interface ScreenDevice {
  write(text: string): void;
  size(): ScreenSize;
  /** While true, keys come at once, unseen, and Ctrl-C is one of them. */
  setRaw(isRaw: boolean): void;
  /** The next keys; null when the terminal has gone. */
  readKeys(): Promise<string | null>;
  /** Runs at every change of size, until stopped. */
  onResize(run: () => void): { stop(): void };
  /** Runs when the process is told to end, until stopped. */
  onEnd(run: () => void): { stop(): void };
}

export interface Screen extends Disposable {
  /** Aborts on q, Ctrl-C, Esc, a signal to end, and when the terminal goes. */
  readonly quit: AbortSignal;
  readonly size: ScreenSize;
  /** Shows these lines from the top; what doesn't fit is left out. */
  draw(lines: readonly string[]): void;
}

/** Takes the terminal until disposed. `redraw` is called when the size has changed. */
export function openScreen(device: ScreenDevice, redraw: () => void): Screen {
  const quit = new AbortController();
  const end = () => quit.abort();
  device.setRaw(true);
  device.write(ENTER);
  const resizing = device.onResize(() => {
    // What stood beyond the new edge would stay.
    device.write(HOME + REST_OF_SCREEN);
    redraw();
  });
  const ending = device.onEnd(end);
  let isOpen = true;
  void readUntilQuit(device, () => isOpen).finally(end);
  return {
    quit: quit.signal,
    get size() {
      return device.size();
    },
    draw(lines) {
      const shown = lines.slice(0, device.size().rows).map((line) => CLEAR_LINE + line);
      device.write(`${HOME}${shown.join("\r\n")}${shown.length < device.size().rows ? `\r\n${REST_OF_SCREEN}` : ""}`);
    },
    [Symbol.dispose]() {
      isOpen = false;
      resizing.stop();
      ending.stop();
      device.write(LEAVE);
      device.setRaw(false);
    },
  };
}

async function readUntilQuit(device: ScreenDevice, isOpen: () => boolean): Promise<void> {
  while (isOpen()) {
    const keys = await device.readKeys();
    // Esc alone: arrows and the like begin with it.
    if (keys === null || keys === ESCAPE || /[qQ]/.test(keys) || keys.includes(CTRL_C)) return;
  }
}

/** This process's terminal. */
export function terminalDevice(): ScreenDevice {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(256);
  const on = (signals: readonly Deno.Signal[], run: () => void) => {
    for (const signal of signals) Deno.addSignalListener(signal, run);
    return { stop: () => signals.forEach((signal) => Deno.removeSignalListener(signal, run)) };
  };
  return {
    write(text) {
      const bytes = encoder.encode(text);
      for (let at = 0; at < bytes.byteLength;) at += Deno.stdout.writeSync(bytes.subarray(at));
    },
    size: () => Deno.consoleSize(),
    setRaw: (isRaw) => Deno.stdin.setRaw(isRaw),
    async readKeys() {
      const count = await Deno.stdin.read(buffer);
      return count === null ? null : decoder.decode(buffer.subarray(0, count));
    },
    onResize: (run) => on(["SIGWINCH"], run),
    onEnd: (run) => on(["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"], run),
  };
}

/** Whether there is a terminal to take: keys come from one and the picture goes to one. */
export function hasTerminal(): boolean {
  return Deno.stdin.isTerminal() && Deno.stdout.isTerminal();
}
