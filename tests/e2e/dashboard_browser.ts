/** A real Chromium for the dashboard's tests, watched for everything that a page of ours must never do. */
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where Chromium is, or null; the reason for skipping is printed once. */
export function findChromium(): string | null {
  const found = PATHS.find((path) => exists(path)) ?? null;
  if (found === null) console.log(`Dashboard tests are skipped: no Chromium at ${PATHS.join(", ")}`);
  return found;
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** What went wrong in a page, in words; empty when nothing did. */
export interface Watched {
  readonly page: Page;
  /** Console errors, uncaught exceptions, policy violations, and requests that left for another origin. */
  readonly complaints: string[];
}

/** Opens a page in a profile of its own. */
export type Open = (url: string, options?: BrowserContextOptions) => Promise<Watched>;

/** Starts a browser and closes it afterwards, whatever happens. */
export async function inBrowser(executablePath: string, use: (open: Open) => Promise<void>): Promise<void> {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    await use((url, options) => openPage(browser, url, options));
  } finally {
    await browser.close();
  }
}

async function openPage(browser: Browser, url: string, options?: BrowserContextOptions): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    // Chromium logs every refused call; what the page makes of a refusal is tested, and files are looked at below.
    if (message.text().startsWith("Failed to load resource: the server responded")) return;
    if (message.type() === "error" || message.type() === "warning") complaints.push(`console: ${message.text()}`);
  });
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (response.status() >= 400 && !pathname.startsWith("/api/")) complaints.push(`${response.status()}: ${pathname}`);
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) complaints.push(`left the origin: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  // Long enough for a busy machine, short enough that a failure is told before anyone gives up.
  page.setDefaultTimeout(10_000);
  await page.goto(url);
  return { page, complaints };
}

/** Elements that stick out to the right: what makes a page scroll sideways. */
export function sidewaysOverflow(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
      .map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
  });
}

/** Texts below 4.5:1 (3:1 for large ones) against what lies behind them, by WCAG's formula. */
export function lowContrast(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })!;
    const paint = (layers: readonly string[]): number[] => {
      canvas.clearRect(0, 0, 1, 1);
      for (const layer of layers) {
        canvas.fillStyle = layer;
        canvas.fillRect(0, 0, 1, 1);
      }
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (rgba: readonly number[]) => {
      const [r = 0, g = 0, b = 0] = rgba.map((byte) => {
        const share = byte / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element: Element | null): string[] => {
      const layers: string[] = [];
      for (let at = element; at !== null; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
      return layers;
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const low: string[] = [];
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const text = walker.currentNode.textContent?.trim() ?? "";
      if (
        element === null || text === "" || !element.checkVisibility() || element.closest(".visually-hidden, :disabled")
      ) {
        continue;
      }
      const style = getComputedStyle(element);
      const layers = behind(element);
      const [a, b] = [luminance(paint([...layers, style.color])), luminance(paint(layers))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = Number.parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (isLarge ? 3 : 4.5)) low.push(`${text.slice(0, 40)} (${element.className}): ${ratio.toFixed(2)}`);
    }
    return [...new Set(low)];
  });
}
