import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";

import { openConsolePage } from "../support/console-page.ts";
import { useConsoleTraffic } from "../support/console-tests.ts";
import { eventually } from "../support/eventually.ts";

const shown = useConsoleTraffic();

const openAt = (path: string) => openConsolePage(shown.browser, shown.traffic, path);
const exchangePath = (): string => `exchange/${encodeURIComponent(shown.traffic.last.id)}`;
const sessionPath = (): string => `sessions/${encodeURIComponent(`session:"${shown.traffic.last.session ?? ""}"`)}`;

/** Opens the address of a page as somebody else does who was sent it. */
async function sharedWithAnother(page: Page) {
  const path = new URL(page.url()).hash.replace("#/", "");
  return openAt(path);
}

const untilAddress = (page: Page, pattern: RegExp): Promise<void> =>
  eventually(async () => expect(page.url()).toMatch(pattern));

describe("the address of the console", () => {
  it.each(["Messages", "Changes", "Raw", "Why"])("names the tab %s of an exchange", async (name) => {
    await using at = await openAt(exchangePath());
    await at.page.getByRole("tab", { name: "Raw" }).click();
    await at.page.getByRole("tab", { name }).click();
    await untilAddress(at.page, new RegExp(`tab=${name.toLowerCase()}$`, "u"));
    await at.page.reload();
    await at.page.getByRole("tab", { name, selected: true }).waitFor();
    await using other = await sharedWithAnother(at.page);
    await other.page.getByRole("tab", { name, selected: true }).waitFor();
    expect([...at.problems, ...other.problems]).toEqual([]);
  });

  it("names the exchange that was chosen in the live traffic, with its tab and the filter", async () => {
    await using at = await openAt("live?filter=tool:*");
    await at.page.getByRole("option", { name: /count_slowly/u }).click();
    const detail = (page: Page) => page.getByRole("complementary", { name: "The chosen exchange" });
    await detail(at.page).getByRole("tab", { name: "Messages" }).click();
    await untilAddress(at.page, /filter=tool%3A\*&exchange=[^&]+&tab=messages$/u);
    await at.page.reload();
    await at.page.getByRole("option", { name: /count_slowly/u, selected: true }).waitFor();
    await detail(at.page).getByRole("tab", { name: "Messages", selected: true }).waitFor();
    await using other = await sharedWithAnother(at.page);
    await detail(other.page)
      .getByRole("heading", { name: /count_slowly/u })
      .waitFor();
    // Another filter keeps what was chosen, also where it is not in the list.
    await other.page.getByLabel("Filter").fill("denied");
    await eventually(async () => expect(await other.page.getByRole("option").count()).toBe(1));
    await detail(other.page)
      .getByRole("heading", { name: /count_slowly/u })
      .waitFor();
    // Who goes to the live traffic anew sees the newest call again.
    await other.page.getByRole("link", { name: /^Live/u }).click();
    await detail(other.page).getByRole("heading", { name: /^add/u }).waitFor();
    expect([...at.problems, ...other.problems]).toEqual([]);
  });

  it("says of an exchange that is not recorded that there is none", async () => {
    await using at = await openAt("live?exchange=nothing-1");
    await at.page.getByRole("complementary").getByRole("alert").waitFor();
    await at.page.getByRole("option").first().click();
    await at.page.getByRole("complementary").getByRole("tab", { name: "Why" }).waitFor();
    expect(await at.page.getByRole("alert").count()).toBe(0);
  });

  it("follows an arrow key that is held, and names where it stopped", async () => {
    await using at = await openAt("live");
    await at.page.getByRole("option").first().waitFor();
    await at.page.getByRole("listbox", { name: "Exchanges" }).focus();
    for (let times = 0; times < 12; times++) await at.page.keyboard.press("ArrowDown");
    const chosen = (await at.page.getByRole("option", { selected: true }).getAttribute("id"))?.replace("row-", "");
    await untilAddress(at.page, new RegExp(`exchange=${encodeURIComponent(chosen ?? "none")}`, "u"));
    expect(at.problems).toEqual([]);
  });

  it("names the way to look at a session, the time in sight and the chosen call", async () => {
    await using at = await openAt(sessionPath());
    const period = (page: Page) => page.getByText(/^[\d:.]+ to [\d:.]+, /u);
    await at.page.getByRole("application", { name: /^Timeline/u }).focus();
    await at.page.keyboard.press("ArrowRight");
    await at.page.keyboard.press("+");
    await untilAddress(at.page, /exchange=[^&]+&from=[\d.]+&to=[\d.]+/u);
    const before = await period(at.page).innerText();
    await using other = await sharedWithAnother(at.page);
    await eventually(async () => expect(await period(other.page).innerText()).toBe(before));
    await other.page.getByRole("heading", { name: "initialize" }).waitFor();
    await other.page.getByRole("tab", { name: "Conversation" }).click();
    await untilAddress(other.page, /as=conversation/u);
    await other.page.reload();
    await other.page.getByText("2 + 40 = 42").first().waitFor();
    // A time that is none is no reason to show nothing.
    await at.page.goto("about:blank");
    await at.page.goto(`${shown.traffic.consoleUrl}#/${sessionPath()}?from=x&to=1&exchange=none`);
    await at.page.getByRole("application", { name: /^Timeline/u }).waitFor();
    await at.page.getByRole("alert").waitFor();
  });

  it("names the period of a policy run; rules that were written are still there after a reload", async () => {
    await using at = await openAt("policy");
    const rules = at.page.getByLabel("Rules as YAML");
    await rules.fill("rules: [{ id: mine, allow: 'true' }]");
    await at.page.getByLabel("Time to run over").selectOption("1440");
    await untilAddress(at.page, /minutes=1440/u);
    await at.page.reload();
    await eventually(async () => expect(await rules.inputValue()).toContain("id: mine"));
    expect(await at.page.getByLabel("Time to run over").inputValue()).toBe("1440");
    // They are this page's own, and go with its session.
    await using other = await sharedWithAnother(at.page);
    expect(await other.page.getByLabel("Rules as YAML").inputValue()).not.toContain("id: mine");
    await at.page.getByRole("button", { name: /^Sign out/u }).click();
    await at.page.getByText("You have signed out").waitFor();
    expect(await at.page.evaluate("sessionStorage.length")).toBe(0);
  });

  it("names what is held, and holds nothing before somebody asks for it", async () => {
    await using at = await openAt("held");
    await at.page.getByLabel("Hold messages that match").fill("tool:none");
    await at.page.getByRole("button", { name: "Hold what matches" }).click();
    await untilAddress(at.page, /hold=tool%3Anone/u);
    await using other = await sharedWithAnother(at.page);
    await eventually(async () =>
      expect(await other.page.getByLabel("Hold messages that match").inputValue()).toBe("tool:none"),
    );
    await other.page.getByText("Interceptors can hold messages").waitFor();
  });

  it("shows the newest call that a filter finds, until somebody chooses one", async () => {
    await using at = await openAt("live");
    const detail = at.page.getByRole("complementary", { name: "The chosen exchange" });
    await at.page.getByLabel("Filter").fill("denied");
    await detail.getByRole("heading", { name: /^fail/u }).waitFor();
    await at.page.getByLabel("Filter").fill("tool:nothing");
    await detail.getByText("Nothing chosen").waitFor();
    await at.page.getByLabel("Filter").fill("tool:count_slowly");
    await detail.getByRole("heading", { name: /^count_slowly/u }).waitFor();
    // Who reads there has chosen it: what is newer does not take its place.
    await detail.getByRole("tab", { name: "Messages" }).click();
    await at.page.getByLabel("Filter").fill("tool:add");
    await eventually(async () => expect(await at.page.getByRole("option").first().innerText()).toContain("add"));
    await detail.getByRole("heading", { name: /^count_slowly/u }).waitFor();
  });
});
