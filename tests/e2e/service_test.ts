/** The service from source, as `deno task start` and `deno task demo` run it. */
import { FROM_SOURCE } from "./running_service.ts";
import { play, SCENES } from "./scenes.ts";

for (const scene of SCENES) {
  Deno.test(`from source: ${scene.name}`, () => play(scene, FROM_SOURCE));
}
