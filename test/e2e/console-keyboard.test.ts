import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";

import { expectAccessible } from "../support/axe.ts";
import { openConsolePage } from "../support/console-page.ts";
import { useConsoleTraffic } from "../support/console-tests.ts";
import { eventually } from "../support/eventually.ts";

const shown = useConsoleTraffic();

async function openPalette(page: Page, text = ""): Promise<void> {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type(text);
}

describe("the keyboard of the console", () => {
  it("finds everything that can be pressed in a view by the command palette, and shows what is chosen there", async () => {
    const context = { permissions: ["clipboard-read", "clipboard-write"] };
    const path = `exchange/${encodeURIComponent(shown.traffic.last.id)}`;
    await using at = await openConsolePage(shown.browser, shown.traffic, path, context);
    const { page } = at;
    await page.getByText("Rules for the request").waitFor();
    await openPalette(page, "copy as curl");
    await page.keyboard.press("Enter");
    await eventually(async () => expect(await page.evaluate("navigator.clipboard.readText()")).toContain("curl "));
    await openPalette(page, "show mess");
    await page.keyboard.press("Enter");
    await page.getByRole("tab", { name: "Messages", selected: true }).waitFor();
    await openPalette(page);
    // The last one is below what is in sight.
    await page.keyboard.press("ArrowUp");
    const last = page.getByRole("option", { name: /^Sign out/u, selected: true });
    await eventually(async () => {
      const [option, list] = [await last.boundingBox(), await page.getByRole("listbox").boundingBox()];
      expect((option?.y ?? 0) + (option?.height ?? 0)).toBeLessThanOrEqual((list?.y ?? 0) + (list?.height ?? 0) + 1);
    });
    await expectAccessible(page, "the commands of an exchange");
    // The first Escape ends the palette, the next one leads back.
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("tab", { name: "Messages", selected: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("status").getByText("live", { exact: true }).waitFor();
    await openPalette(page, "pause");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Resume/u }).waitFor();
    expect(at.problems).toEqual([]);
  });
});
