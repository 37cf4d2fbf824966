import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Fails if axe finds something serious in what a page shows, or if the page is wider than its window. */
export async function expectAccessible(page: Page, what: string): Promise<void> {
  const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  expect({ what, overflow, problems: await seriousProblems(page) }).toEqual({ what, overflow: 0, problems: [] });
}

async function seriousProblems(page: Page): Promise<readonly unknown[]> {
  // Runs in a world of its own, as browser extensions do: the page's own rules would not let it in.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  await session.send("Runtime.evaluate", { expression: axeSource, contextId: executionContextId });
  const { result } = await session.send("Runtime.evaluate", {
    expression: "axe.run(document).then((found) => JSON.stringify(found))",
    contextId: executionContextId,
    awaitPromise: true,
  });
  await session.detach();
  const { violations } = JSON.parse(String(result.value)) as AxeResults;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => ({ id, at: nodes.map(({ html, failureSummary }) => [html, failureSummary]) }));
}
