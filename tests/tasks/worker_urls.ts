const WORKER_URL = /new URL\(\s*(["'`])([^"'`]+\.tsx?)\1,\s*import\.meta\.url\s*\)/g;

/**
 * The bundler keeps `new URL("./nvml.ts", import.meta.url)` as written, though the file that says so now lies elsewhere
 * and the entry is a bundle too. Points each at its bundle; entries are told apart by their file name.
 */
export function pointWorkersAtBundles(path: string, script: string, workers: readonly string[]): string {
  return script.replaceAll(WORKER_URL, (_whole, _quote: string, written: string) => {
    const name = (written.split("/").at(-1) ?? "").replace(/\.tsx?$/, ".js");
    const targets = workers.filter((entry) => entry.split("/").at(-1) === name);
    const [target] = targets;
    if (target === undefined || targets.length > 1) {
      throw new Error(
        `Cannot place the Worker ${written} of ${path}: ${targets.length} of the bundles are called ${name}`,
      );
    }
    const up = "../".repeat(path.split("/").length - 1);
    return `new URL("${up === "" ? "./" : up}${target}", import.meta.url)`;
  });
}
