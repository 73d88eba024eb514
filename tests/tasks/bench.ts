/** `deno task bench [name…]`: runs tests/bench/*_bench.ts one after the other and prints each figure beside its bar. */
import { type Bench, type Figure, isMet, tableOf } from "./figures.ts";
import { ROOT } from "./tools.ts";

const FOLDER = new URL("tests/bench/", ROOT);

async function benches(names: readonly string[]): Promise<Bench[]> {
  const files: string[] = [];
  for await (const { name } of Deno.readDir(FOLDER)) if (name.endsWith("_bench.ts")) files.push(name);
  const all = await Promise.all(
    files.sort().map(async (file) => {
      const { bench } = await import(new URL(file, FOLDER).href);
      if (typeof bench?.measure !== "function") {
        throw new TypeError(`Cannot run tests/bench/${file}: it exports no bench`);
      }
      return bench as Bench; // a module is typed by its own check; this only reads its export
    }),
  );
  // A name that a bench has means that one; any other, all that contain it.
  const isWhole = (wanted: string) => all.some(({ name }) => name === wanted);
  const means = (wanted: string, name: string) => isWhole(wanted) ? name === wanted : name.includes(wanted);
  return names.length === 0 ? all : all.filter(({ name }) => names.some((wanted) => means(wanted, name)));
}

if (import.meta.main) {
  const figures: Figure[] = [];
  for (const bench of await benches(Deno.args)) {
    console.log(`\n${bench.name}: ${bench.about}`);
    const own = await bench.measure();
    console.log(tableOf(own));
    figures.push(...own);
  }
  const missed = figures.filter((figure) => isMet(figure) === false);
  console.log(`\n${figures.length} figures, ${missed.length} miss their bar`);
  if (missed.length > 0 || figures.length === 0) Deno.exit(1);
}
