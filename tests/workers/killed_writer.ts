const WRITER = new URL("./store_writer.ts", import.meta.url).pathname;

/** Runs the writer until it has told of `acknowledged` events, kills it, and answers their numbers. */
export async function writeAndKill(path: string, from: number, acknowledged: number): Promise<number[]> {
  const writer = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", WRITER, path, `${from}`],
    stdout: "piped",
  }).spawn();
  let text = "";
  let isKilled = false;
  for await (const chunk of writer.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (isKilled || text.split("\n").length <= acknowledged) continue;
    // What it had said before it died may still come afterwards.
    isKilled = true;
    writer.kill("SIGKILL");
  }
  await writer.status;
  // The last line may be cut short.
  return text.split("\n").slice(0, -1).map((line) => Number(line.split(" ")[0]));
}
