import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { expectAccessible } from "../support/axe.ts";
import { startChromium } from "../support/chromium.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { openConsole } from "../support/console.ts";
import { openConsolePage } from "../support/console-page.ts";
import { openConsoleTraffic } from "../support/console-places.ts";
import { eventually } from "../support/eventually.ts";

let browser: Browser & AsyncDisposable;

beforeAll(async () => {
  browser = await startChromium();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

const openAt = (
  opened: { readonly signInUrl: () => string; readonly consoleUrl: string },
  path: string,
  width = 1280,
) => openConsolePage(browser, opened, path, { width });

describe("in the console", () => {
  it("a tool is called with a form made of its schema, and the server's question is answered", async () => {
    await using opened = await openConsole();
    await using at = await openAt(opened, "playground");
    await at.page.getByRole("button", { name: /^add/u }).click();
    await at.page.getByLabel(/^a\b/u).fill("many");
    await at.page.getByLabel(/^b\b/u).fill("40");
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    await at.page.getByText("a is not a number").waitFor();
    await at.page.getByLabel(/^a\b/u).fill("2");
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    await at.page.getByText("2 + 40 = 42").first().waitFor();
    // What the schema does not allow can be tried, too: the server says what it thinks of it.
    await at.page.getByRole("button", { name: "Write as JSON" }).click();
    const written = at.page.getByLabel("Arguments as JSON");
    expect(JSON.parse(await written.inputValue())).toEqual({ a: 2, b: 40 });
    await written.fill("[1]");
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    await at.page.getByText("arguments are a JSON object").waitFor();
    await written.fill('{ "a": 3, "b": 40 }');
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    await at.page.getByText("3 + 40 = 43").first().waitFor();
    // One click from the result to why it was allowed, and how long each part took.
    await at.page.getByRole("link", { name: /^Why it was allowed/u }).click();
    const detail = at.page.getByRole("complementary", { name: "The chosen exchange" });
    await detail.getByText("Allowed: this route has no policy").waitFor();
    await detail.getByRole("region", { name: "Where the time went" }).getByText("server").waitFor();
    await detail.getByRole("tab", { name: "Messages" }).click();
    await detail.getByText("3 + 40 = 43").first().waitFor();
    await at.page.goBack();
    await at.page.getByRole("button", { name: /book_berth/u }).click();
    await at.page.getByLabel(/ship/iu).first().fill("Ada");
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    const question = at.page.getByRole("alertdialog", { name: "The server asks" });
    await question.and(at.page.locator(":focus")).waitFor();
    await expectAccessible(at.page, "a question");
    await question.getByRole("button", { name: "Decline" }).click();
    await at.page.getByText("No berth was booked for Ada").first().waitFor();
    await expectAccessible(at.page, "a result");
    // Its two rounds are one bar of the timeline, and one card of the conversation.
    await at.page.goto(`${opened.consoleUrl}#/sessions/${encodeURIComponent("tool:book_berth")}`);
    await at.page.locator(".span.whole").waitFor({ state: "attached" });
    await at.page.getByRole("application", { name: /Timeline of 1 calls/u }).waitFor();
    await at.page.getByRole("tab", { name: "Conversation" }).click();
    const card = at.page.getByRole("listitem").filter({ hasText: "Used the tool book_berth" });
    await card.getByText("2 rounds").waitFor();
    await card.getByText("The user chose to decline").waitFor();
    // It went the way of every call.
    await at.page.goto(`${opened.consoleUrl}#/live`);
    await eventually(async () =>
      expect(await at.page.getByRole("option", { name: /book_berth/u }).count()).toBeGreaterThan(0),
    );
  });

  it("on a narrow page, what is tried has the room, with a way back to the list", async () => {
    await using opened = await openConsole();
    await using at = await openAt(opened, "playground", 380);
    const add = at.page.getByRole("button", { name: /^add/u });
    await add.click();
    await at.page.getByLabel(/^a\b/u).waitFor();
    expect(await add.isVisible()).toBe(false);
    await expectAccessible(at.page, "a tool on a narrow page");
    await at.page.getByRole("button", { name: "← Everything it offers" }).click();
    await add.waitFor();
  });

  it("a call reports progress while it runs, and can be cancelled", async () => {
    await using opened = await openConsole();
    await using at = await openAt(opened, "playground");
    await at.page.getByRole("button", { name: /^count_slowly/u }).click();
    await at.page.getByLabel(/^to/u).fill("50");
    await at.page.getByLabel(/^delay_ms/u).fill("200");
    await at.page.getByRole("button", { name: "Call", exact: true }).click();
    const status = at.page.getByRole("status");
    await status.getByText(/^[1-9]\d* of 50/u).waitFor();
    await expectAccessible(at.page, "progress");
    await at.page.getByRole("button", { name: "Cancel the call" }).click();
    await at.page.getByRole("alert").waitFor();
    expect(await status.count()).toBe(0);
    await eventually(async () =>
      expect((await opened.ask("/exchanges?filter=tool:count_slowly")).json).toMatchObject({
        exchanges: [{ state: expect.stringMatching(/cancelled|abandoned/u) as string }],
      }),
    );
  });

  it("a time is chosen by dragging, in the strip and in the timeline", async () => {
    await using opened = await openConsoleTraffic();
    await using at = await openAt(opened, "live");
    const { page } = at;
    const drag = async (label: RegExp, from: number, to: number): Promise<void> => {
      const chart = page.getByRole("application", { name: label });
      const box = await chart.boundingBox();
      if (box === null) throw new Error("nothing is drawn");
      await page.mouse.move(box.x + box.width * from, box.y + 10);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * to, box.y + 12, { steps: 4 });
      await page.locator(".brush").waitFor();
      await page.mouse.up();
    };
    await page.getByRole("option").first().waitFor();
    // From the right to the left, too.
    await drag(/requests since/u, 0.99, 0.5);
    await eventually(async () => expect(page.url()).toMatch(/since%3A.*before%3A/u));
    await page.goto(`${opened.consoleUrl}#/sessions/${encodeURIComponent(`session:"${opened.last.session ?? ""}"`)}`);
    const shown = page.getByText(/^[\d:.]+ to [\d:.]+, /u);
    const before = await shown.innerText();
    await drag(/^Timeline/u, 0.2, 0.4);
    await eventually(async () => expect(await shown.innerText()).not.toBe(before));
    await page.getByRole("button", { name: "Everything" }).click();
    await eventually(async () => expect(await shown.innerText()).toBe(before));
    // A click chooses the call.
    await page.locator(".span").first().click();
    await page.getByRole("region", { name: "Where the time went" }).waitFor();
  });

  it("calls at the same time stand one below the other, and a session that goes on is followed", async () => {
    await using opened = await openConsole();
    await using client = await opened.connect();
    const together = 3;
    await Promise.all(
      Array.from({ length: together }, () =>
        client.sdk.callTool({ name: "count_slowly", arguments: { to: 4, delay_ms: 200 } }),
      ),
    );
    const filter = "tool:*";
    await using at = await openAt(opened, `sessions/${encodeURIComponent(filter)}`);
    const { page } = at;
    await page.getByRole("application", { name: /Timeline of 3 calls/u }).waitFor();
    const heights = await page
      .locator(".lanes .span-name")
      .evaluateAll((names) => names.map((name) => name.getAttribute("y")));
    expect(new Set(heights).size).toBe(together);
    // Nobody has to load the page again.
    await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    const timeline = page.getByRole("application", { name: /Timeline of 4 calls/u });
    await timeline.waitFor();
    // A call out of sight is brought into it by the key that chooses it.
    const shown = page.getByText(/^[\d:.]+ to [\d:.]+, /u);
    await timeline.focus();
    for (let times = 0; times < 6; times++) await page.keyboard.press("+");
    const before = await shown.innerText();
    for (let times = 0; times < 4; times++) await page.keyboard.press("ArrowRight");
    await page.getByRole("heading", { name: "add tools/call" }).waitFor();
    expect(await shown.innerText()).not.toBe(before);
    expect(await page.locator(".span.selected").count()).toBeGreaterThan(0);
    await page.keyboard.press("Shift+ArrowLeft");
    await page.getByRole("button", { name: "Later →" }).click();
    await page.getByRole("button", { name: "Everything" }).click();
    expect(await page.getByRole("button", { name: "← Earlier" }).count()).toBe(0);
    await page.getByRole("tab", { name: "Conversation" }).click();
    await page.getByText("2 + 40 = 42").waitFor();
    await client.sdk.callTool({ name: "add", arguments: { a: 3, b: 40 } });
    await page.getByText("3 + 40 = 43").waitFor();
    await expectAccessible(page, "a conversation");
  });

  it("a recorded call is made again with its arguments, and the address names what was chosen", async () => {
    await using opened = await openConsole();
    await using client = await opened.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 7, b: 40 } });
    await using at = await openAt(opened, "live");
    const { page } = at;
    await page.getByRole("option", { name: /add/u }).first().click();
    await page.getByRole("link", { name: "run again" }).click();
    await eventually(async () => expect(await page.getByLabel(/^a\b/u).inputValue()).toBe("7"));
    await page.getByLabel(/^b\b/u).fill("1");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByText("7 + 1 = 8").first().waitFor();
    await page.getByLabel("Find in what the server offers").fill("slowly");
    expect(await page.getByRole("navigation", { name: "What the server offers" }).getByRole("button").count()).toBe(1);
    await page.getByRole("button", { name: /^count_slowly/u }).click();
    expect(page.url()).toContain("tools=count_slowly");
    await page.goBack();
    await page.getByRole("heading", { name: "add", exact: true }).waitFor();
    await page.goto(`${opened.consoleUrl}#/playground?tools=none`);
    await page.getByText("The server does not offer this to you").waitFor();
  });

  it("a rule is changed and run over the last hour, and the decisions that change are listed", async () => {
    await using opened = await openConsoleTraffic();
    await using at = await openAt(opened, "policy");
    const rules = at.page.getByLabel("Rules as YAML");
    await rules.fill((await rules.inputValue()).replace('mcp.tool == "fail"', 'mcp.tool == "add"'));
    await at.page.getByRole("button", { name: "Run over" }).click();
    const row = at.page.getByRole("row", { name: /would be refused add no-failures/u });
    await row.waitFor();
    expect(await row.innerText()).toContain("25");
    await row.getByText("example 1").click();
    await at.page.getByText("Rules for the request").waitFor();
    await at.page.goBack();
    // Neither what was written nor what it would change is lost.
    await row.waitFor();
    expect(await rules.inputValue()).toContain('deny: mcp.tool == "add"');
    await at.page.getByRole("button", { name: "Undo all changes" }).click();
    expect(await rules.inputValue()).toContain('deny: mcp.tool == "fail"');
    await rules.fill("rules: [{ id: a, allow: '((' }]");
    await at.page.getByRole("button", { name: "Run over" }).click();
    await at.page.getByRole("alert").waitFor();
  });

  it("a definition that differs is shown word by word, and approved with a reason", async () => {
    using folder = temporaryFolder();
    const lock = folder.write("lock.json", JSON.stringify({ format: 1, routes: { default: {} } }));
    await using opened = await openConsole({ drift: { lock, mode: "warn" } });
    await using client = await opened.connect();
    await client.sdk.listTools();
    await eventually(async () => expect(JSON.stringify((await opened.ask("/drift")).json)).toContain("tool add"));
    await using at = await openAt(opened, "drift");
    const card = at.page.getByRole("article").filter({ has: at.page.getByRole("heading", { name: "tool add" }) });
    await card.waitFor();
    expect(await card.locator("ins").count()).toBeGreaterThan(0);
    await expectAccessible(at.page, "a definition that differs");
    await card.getByLabel("Reason to approve tool add").fill("read it");
    await card.getByRole("button", { name: "Approve" }).click();
    await card.waitFor({ state: "detached" });
    expect(JSON.stringify((await opened.ask("/drift")).json)).not.toContain('"tool add"');
    await at.page.getByLabel("Reason to approve all of default").fill("a new server, all of it read");
    await at.page.getByRole("button", { name: /^Approve all \d+$/u }).click();
    await at.page.getByText("Everything is as approved").waitFor();
  });

  it("[SC-063] held messages are released, changed, refused and answered", async () => {
    await using opened = await openConsole();
    await using at = await openAt(opened, "held");
    const { page } = at;
    await page.getByLabel("Hold messages that match").fill("tool:add ~q");
    await page.getByRole("button", { name: "Hold what matches" }).click();
    await page.getByText("Matching messages are held here").waitFor();
    await using client = await opened.connect();
    const add = (): Promise<unknown> =>
      client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } }).catch((error: unknown) => error);
    const card = page.getByRole("article", { name: "Held: add" });
    const first = add();
    await card.getByRole("button", { name: "Release" }).click();
    expect(JSON.stringify(await first)).toContain("2 + 40 = 42");
    // The next message has a card of its own, and what is typed into this one is lost.
    const untilGone = (): Promise<void> => card.waitFor({ state: "detached" });
    await untilGone();
    const changed = add();
    const editor = card.getByLabel(/^Message /u);
    await editor.fill("{ not JSON");
    await card.getByRole("button", { name: "Release" }).click();
    await card.getByRole("alert").waitFor();
    await editor.fill((await sent(opened)).replace('"b":40', '"b": 5'));
    await card.getByRole("button", { name: "Release" }).click();
    expect(JSON.stringify(await changed)).toContain("2 + 5 = 7");
    await untilGone();
    const refused = add();
    await card.getByText(/refused in \d+ (?:s|min) if nobody decides/u).waitFor();
    // In every other view, a number says that a message waits.
    await page.getByRole("link", { name: /Held 1 waiting/u }).waitFor();
    await card.getByRole("tab", { name: "Refuse" }).click();
    await expectAccessible(page, "a held message");
    await card.getByLabel("Reason").fill("not on a Monday");
    await page.keyboard.press("Enter");
    expect(String(await refused)).toContain("not on a Monday");
    await untilGone();
    const answered = add();
    await card.getByRole("tab", { name: "Answer" }).click();
    await card
      .getByRole("textbox", { name: "Answer" })
      .fill('{"result":{"content":[{"type":"text","text":"forty-two"}]}}');
    await card.getByRole("button", { name: "Answer it" }).click();
    expect(JSON.stringify(await answered)).toContain("forty-two");
    await page.getByText("Matching messages are held here").waitFor();
  });
});

/** The held message as it was sent. */
async function sent({ ask }: Awaited<ReturnType<typeof openConsole>>): Promise<string> {
  const { held } = (await ask("/holds")).json as { readonly held: readonly { readonly text: string }[] };
  return held[0]?.text ?? "";
}
