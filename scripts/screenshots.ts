// Takes pictures of every view of the console, with real traffic of the demo server: npm run -s screenshots -- FOLDER
// With --docs it also writes the two that the documentation shows.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import type { Page } from "playwright-core";

import { goTo, openConsoleTraffic } from "../test/support/console-places.ts";
import { startChromium } from "../test/support/chromium.ts";

const [given, ...options] = process.argv.slice(2).toSorted((one) => (one.startsWith("--") ? 1 : -1));
const isForDocs = [given, ...options].includes("--docs");
const folder = resolve(given === undefined || given.startsWith("--") ? ".reports/screenshots" : given);
/** The pictures of the documentation, by view. */
const documented: Readonly<Record<string, string>> = { "live-wide": "console-live", "figures-dark": "console-figures" };
mkdirSync(folder, { recursive: true });

const looks = [
  { name: "wide", width: 1280, height: 800, colorScheme: "light" },
  { name: "dark", width: 1280, height: 800, colorScheme: "dark" },
  { name: "narrow", width: 380, height: 760, colorScheme: "light" },
  { name: "narrow-dark", width: 380, height: 760, colorScheme: "dark" },
] as const;

await using traffic = await openConsoleTraffic();
await using browser = await startChromium();
for (const { name, width, height, colorScheme } of looks) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(traffic.signInUrl());
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  for (const place of traffic.places) {
    await goTo(page, traffic.consoleUrl, place);
    await page.screenshot({ path: join(folder, `${place.name}-${name}.png`) });
    console.log(`${place.name}-${name}.png`);
    const picture = documented[`${place.name}-${name}`];
    if (isForDocs && picture !== undefined) await writeSmall(page, `docs/images/${picture}.webp`);
  }
  await context.close();
}

/** Writes what a page shows as WebP, a quarter of the size of a PNG. */
async function writeSmall(page: Page, file: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 80 });
  writeFileSync(resolve(import.meta.dirname, "..", file), Buffer.from(data, "base64"));
}
