/**
 * A byte sent round over a loopback connection: when it is back, the event loop has asked the kernel for socket events
 * at least once. Timers and immediates don't do that (fifty of them pass before one hop of fetch), and waiting in real
 * time would tie tests to the machine's speed.
 */
export class Loopback implements AsyncDisposable {
  readonly #here: Deno.Conn;
  readonly #there: Deno.Conn;
  readonly #byte = new Uint8Array(1);
  readonly #inbox = new Uint8Array(1);

  private constructor(here: Deno.Conn, there: Deno.Conn) {
    this.#here = here;
    this.#there = there;
  }

  static async open(): Promise<Loopback> {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const accepted = listener.accept();
    const here = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
    here.setNoDelay();
    return new Loopback(here, await accepted);
  }

  /** One turn of the event loop that has seen the sockets (35–50 µs). */
  async turn(): Promise<void> {
    const arrived = this.#there.read(this.#inbox);
    await this.#here.write(this.#byte);
    await arrived;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#here.close();
    this.#there.close();
    return Promise.resolve();
  }
}
