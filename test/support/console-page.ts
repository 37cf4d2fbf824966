import type { Browser, BrowserContextOptions } from "playwright-core";

/** A page of somebody who has signed in, at a place of the console if one is named; what it logs as errors is collected. */
export async function openConsolePage(
  browser: Browser,
  opened: { readonly signInUrl: () => string; readonly consoleUrl?: string },
  path?: string,
  { width = 1280, ...options }: BrowserContextOptions & { readonly width?: number } = {},
) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, ...options });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("ERR_CONNECTION_REFUSED")) problems.push(message.text());
  });
  await page.goto(opened.signInUrl());
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  if (path !== undefined) await page.goto(`${opened.consoleUrl}#/${path}`);
  return { page, problems, context, [Symbol.asyncDispose]: () => context.close() };
}
