/** Scenes of the dashboard: each with a fake service and a browser profile of its own, all in one browser. */
import type { Page } from "playwright-core";
import { findChromium, inBrowser, type Open } from "./dashboard_browser.ts";
import { type Fake, openFake } from "./dashboard_fake.ts";
import { sampleStats } from "./dashboard_sample.ts";

export type Play = (fake: Fake, open: Open) => Promise<void>;

/** Registers one test with a step for each scene; skipped, with the reason printed, where there is no Chromium. */
export function playScenes(name: string, scenes: Readonly<Record<string, Play>>): void {
  const chromium = findChromium();
  Deno.test({
    name,
    ignore: chromium === null,
    fn: (t) =>
      inBrowser(chromium ?? "", async (open) => {
        for (const [title, play] of Object.entries(scenes)) await t.step(title, () => playOne(play, open));
      }),
  });
}

async function playOne(play: Play, open: Open): Promise<void> {
  const fake = openFake(sampleStats());
  const pages: Page[] = [];
  try {
    await play(fake, async (url, options) => {
      const watched = await open(url, options);
      pages.push(watched.page);
      return watched;
    });
  } finally {
    // First the pages: an open one would go on reconnecting to a service that is gone.
    for (const page of pages) await page.context().close();
    await fake.close();
  }
}
