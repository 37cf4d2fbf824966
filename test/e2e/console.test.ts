import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { expectAccessible } from "../support/axe.ts";
import { buildConsole, openConsole } from "../support/console.ts";
import { openConsolePage } from "../support/console-page.ts";
import { goTo } from "../support/console-places.ts";
import { useConsoleTraffic } from "../support/console-tests.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startNginx } from "../support/nginx.ts";
import { exchange } from "../support/raw-http.ts";

const built = resolve(import.meta.dirname, "../../dist/console");

const shown = useConsoleTraffic();

/** A page that has signed in; what it logs as errors is collected. */
const signedIn = (opened: { readonly signInUrl: () => string }, width = 1280) =>
  openConsolePage(shown.browser, opened, undefined, { width });

describe("the console", () => {
  it("shows the call that a newcomer just made, why it was allowed and how long each part took", async () => {
    await using at = await signedIn(shown.traffic);
    const detail = at.page.getByRole("complementary", { name: "The chosen exchange" });
    await detail.getByText("Allowed by rule small-sums").waitFor();
    await detail.getByText("mcp.arguments.a < 1000.0").waitFor();
    const timing = detail.getByRole("region", { name: "Where the time went" });
    for (const part of ["gateway, request", "policy", "server", "gateway, answer"])
      expect(await timing.getByText(part).count()).toBe(1);
    await detail.getByRole("tab", { name: "Messages" }).click();
    expect(await detail.getByRole("region", { name: "Client side" }).innerText()).toContain("2 + 40 = 42");
    expect(at.problems).toEqual([]);
    // The ticket is not left in the address, but what is being read is.
    const id = encodeURIComponent(shown.traffic.last.id);
    const address = `${shown.traffic.consoleUrl}#/live?exchange=${id}&tab=messages`;
    await eventually(async () => expect(at.page.url()).toBe(address));
  });

  it("follows traffic, filters it and says what is wrong with a filter", async () => {
    await using at = await signedIn(shown.traffic);
    const rows = at.page.getByRole("option");
    await at.page.keyboard.press("/");
    await at.page.keyboard.type("denied");
    await eventually(async () => expect(await rows.count()).toBe(1));
    expect(await rows.first().innerText()).toContain("no-failures");
    await at.page.getByLabel("Filter").fill("tool:add nonsense:x");
    await at.page.getByRole("alert").getByText("unknown term").waitFor();
    await at.page.getByLabel("Filter").fill("tool:whoami");
    await at.page.getByText("Nothing matches this filter").waitFor();
    await using client = await shown.traffic.connect();
    await client.sdk.callTool({ name: "whoami", arguments: {} }).catch(() => {});
    await eventually(async () => expect(await rows.count()).toBe(1));
  });

  it("can be used with the keyboard alone", async () => {
    await using at = await signedIn(shown.traffic);
    const { keyboard } = at.page;
    await at.page.getByRole("option").first().waitFor();
    await at.page.getByRole("application", { name: /requests since/u }).focus();
    await keyboard.press("ArrowLeft");
    await keyboard.press("Enter");
    await eventually(async () => expect(at.page.url()).toContain("since%3A"));
    await at.page.goto(`${shown.traffic.consoleUrl}#/live`);
    await at.page.getByRole("option").first().waitFor();
    await at.page.getByRole("listbox", { name: "Exchanges" }).focus();
    await keyboard.press("ArrowDown");
    await keyboard.press("Enter");
    await at.page.getByRole("button", { name: "← Back" }).waitFor();
    await keyboard.press("Control+k");
    await at.page.getByRole("combobox", { name: "Command" }).and(at.page.locator(":focus")).waitFor();
    await keyboard.type("go to fig");
    await keyboard.press("Enter");
    await at.page.getByText("What is used most").waitFor();
    await keyboard.press("g");
    await keyboard.press("s");
    await at.page.getByText("Last seen").waitFor();
    expect(at.problems).toEqual([]);
  });

  it.each([
    [1280, "light"],
    [1280, "dark"],
    [380, "light"],
    [380, "dark"],
  ] as const)("has nothing that axe finds serious in any view, %i pixels wide, %s", async (width, colorScheme) => {
    await using at = await signedIn(shown.traffic, width);
    await at.page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const place of shown.traffic.places) {
      await goTo(at.page, shown.traffic.consoleUrl, place);
      await expectAccessible(at.page, `${place.name}, ${colorScheme}`);
    }
    // The filter that is wrong is answered so.
    expect(at.problems.filter((text) => !text.includes("400 (Bad Request)"))).toEqual([]);
  });

  it.each([1280, 380])("shows the whole of a session at once, %i pixels wide", async (width) => {
    await using at = await signedIn(shown.traffic, width);
    const place = shown.traffic.places.find(({ name }) => name === "session");
    if (place === undefined) throw new Error("there is no picture of a session");
    await goTo(at.page, shown.traffic.consoleUrl, place);
    const lanes = at.page.getByRole("region", { name: "Lanes" });
    await eventually(async () => {
      const [inside, room] = await lanes.evaluate((box) => [box.scrollWidth, box.clientWidth]);
      expect(inside).toBeLessThanOrEqual(room ?? 0);
    });
    expect(at.problems).toEqual([]);
  });

  it("takes a link once, and says what to do when the session is over", async () => {
    const link = shown.traffic.signInUrl();
    await using at = await signedIn({ signInUrl: () => link });
    await using other = await shown.browser.newContext();
    const page = await other.newPage();
    await page.goto(link);
    await page.getByText("this link was used already").waitFor();
    // The browser that used it goes on.
    await at.page.goto("about:blank");
    await at.page.goto(link);
    await at.page.getByRole("navigation", { name: "Views" }).waitFor();
    await at.page.context().clearCookies();
    await at.page.goto(`${shown.traffic.consoleUrl}#/figures`);
    await at.page.getByText(`headgate console --url ${shown.traffic.adminUrl ?? ""}`).waitFor();
    expect(await at.page.getByRole("navigation").count()).toBe(0);
    await expectAccessible(at.page, "signed out");
  });

  it("goes on after a restart of the gateway", async () => {
    const port = await freePort();
    const first = await openConsole({ admin: { port } });
    await using at = await signedIn(first);
    await at.page.getByText("No traffic yet").waitFor();
    await first[Symbol.asyncDispose]();
    await at.page.getByText("connection lost").waitFor();
    await using second = await openConsole({ admin: { port } });
    await at.page.getByRole("status").getByText("live", { exact: true }).waitFor();
    await using client = await second.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    await at.page.getByRole("option", { name: /add/u }).first().waitFor();
    expect(await at.page.getByRole("option", { name: /add/u }).count()).toBe(1);
  });

  it("fills a view that was opened while the gateway was away", async () => {
    const port = await freePort();
    const first = await openConsole({ admin: { port } });
    await using at = await signedIn(first);
    await first[Symbol.asyncDispose]();
    await at.page.getByRole("link", { name: /Figures/u }).click();
    await at.page.getByRole("alert").getByText("The gateway does not answer").waitFor();
    await using _second = await openConsole({ admin: { port } });
    await at.page.getByText("No requests in this time").waitFor();
    expect(await at.page.getByRole("alert").count()).toBe(0);
  });

  it("shows how a call ended that was running when its page was opened", async () => {
    await using at = await signedIn(shown.traffic);
    await using client = await shown.traffic.connect();
    const call = client.sdk.callTool({ name: "count_slowly", arguments: { to: 20, delay_ms: 200 } });
    await at.page.goto(`${shown.traffic.consoleUrl}#/live?filter=open`);
    await at.page.getByRole("option", { name: /count_slowly/u }).dblclick();
    await at.page.getByRole("button", { name: "← Back" }).waitFor();
    await at.page.getByText("still running").waitFor();
    await call;
    await at.page.getByRole("article").getByText("ok", { exact: true }).waitFor();
    expect(at.problems).toEqual([]);
  });

  it("shows the same row, the same tab and the same way to look again to somebody who comes back", async () => {
    await using at = await signedIn(shown.traffic);
    const { page } = at;
    const row = page.getByRole("option", { name: /count_slowly/u }).first();
    await row.dblclick();
    await page.getByRole("tab", { name: "Messages" }).click();
    await page.getByRole("button", { name: "← Back" }).click();
    await page.getByRole("option", { name: /count_slowly/u, selected: true }).waitFor();
    await page.getByRole("listbox", { name: "Exchanges" }).and(page.locator(":focus")).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.getByRole("tab", { name: "Messages", selected: true }).waitFor();
    const place = shown.traffic.places.find(({ name }) => name === "conversation");
    if (place === undefined) throw new Error("there is no picture of a conversation");
    await goTo(page, shown.traffic.consoleUrl, place);
    await page.getByRole("link", { name: "details" }).first().click();
    await page.getByRole("button", { name: "← Back" }).click();
    await page.getByRole("tab", { name: "Conversation", selected: true }).waitFor();
    expect(at.problems).toEqual([]);
  });

  it("counts only what a filter finds, in figures and sessions, and says what is wrong with a filter", async () => {
    await using at = await signedIn(shown.traffic);
    const { page } = at;
    await page.goto(`${shown.traffic.consoleUrl}#/figures?filter=tool:fail`);
    const tile = (name: string) => page.locator(".tile").filter({ hasText: name });
    await tile("Refused").getByText("100.0 %").waitFor();
    await tile("Refused").getByRole("link").click();
    await page.getByRole("option", { name: /fail/u }).first().waitFor();
    expect(await page.getByLabel("Filter").inputValue()).toBe("tool:fail status:refused since:60m");
    await page.goto(`${shown.traffic.consoleUrl}#/sessions`);
    await page.getByText("Last seen").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("client:nobody");
    await page.getByText("No client matches this filter").waitFor();
    await page.getByLabel("Filter").fill("nonsense:x");
    await page.getByRole("alert").getByText("unknown term").waitFor();
    await page.getByLabel("Filter").fill("tool:fail");
    await page.getByRole("link", { name: "headgate-tests" }).waitFor();
  });

  it("shows a rule that refused as one that refused", async () => {
    await using at = await signedIn(shown.traffic);
    const place = shown.traffic.places.find(({ name }) => name === "refused");
    if (place === undefined) throw new Error("there is no picture of a refused call");
    await goTo(at.page, shown.traffic.consoleUrl, place);
    const rule = at.page.getByRole("listitem").filter({ hasText: "no-failures" });
    await rule.getByText("deny: true").waitFor();
    expect(await rule.getAttribute("class")).toBe("rule decided bad");
  });

  it("works behind nginx under another path, and says what to set where nginx changes the host", async () => {
    await using opened = await openConsole();
    const admin = opened.adminUrl ?? "";
    await using nginx = await startNginx(
      `location /ops/gate/ { proxy_pass ${admin}/; proxy_set_header Host $http_host; }
       location /other/ { proxy_pass ${admin}/; }`,
    );
    const through = (path: string): string => opened.signInUrl().replace(admin, `${nginx.origin}${path}`);
    await using at = await signedIn({ signInUrl: () => through("/ops/gate") });
    const status = at.page.getByRole("status");
    await status.getByText("live", { exact: true }).waitFor();
    await using client = await opened.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    await at.page.getByRole("option", { name: /add/u }).first().waitFor();
    await at.page.getByRole("link", { name: /Figures/u }).click();
    await at.page.getByText("What is used most").waitFor();
    expect(at.problems).toEqual([]);
    await at.page.goto(through("/other"));
    await at.page.getByText("let the proxy forward the Host header").waitFor();
  });

  it("opens an exchange by a link from elsewhere, and goes on to the live traffic", async () => {
    await using at = await signedIn(shown.traffic);
    await at.page.goto("about:blank");
    await at.page.goto(`${shown.traffic.consoleUrl}#/exchange/${encodeURIComponent(shown.traffic.last.id)}`);
    await at.page.getByText("Rules for the request").waitFor();
    await at.page.getByRole("button", { name: "← Back" }).click();
    await at.page.getByRole("listbox", { name: "Exchanges" }).waitFor();
    expect(at.page.url()).toBe(`${shown.traffic.consoleUrl}#/live`);
  });

  it("is served under another path by a proxy, with rules that keep other code out", async () => {
    const page = await exchange(shown.traffic.consoleUrl);
    expect(page.headers["content-security-policy"]).toMatch(/default-src 'none'.*require-trusted-types-for 'script'/u);
    expect(page.headers["content-security-policy"]).not.toContain("unsafe");
    expect(page.text).not.toMatch(/(?:src|href)="\//u);
    expect((await exchange(shown.traffic.consoleUrl.replace(/\/$/u, ""))).headers.location).toBe("console/");
    for (const name of ["../package.json", "%2e%2e/package.json", "assets/../../package.json", "nothing.js"])
      expect((await exchange(`${shown.traffic.consoleUrl}${name}`)).status).toBe(404);
  });

  it("is at most 60 KB to the first view and 120 KB in all, compressed", async () => {
    await buildConsole();
    const sizes = readdirSync(join(built, "assets")).map((name) => ({
      name,
      bytes: gzipSync(readFileSync(join(built, "assets", name))).length,
    }));
    const sum = (names: typeof sizes): number => names.reduce((total, { bytes }) => total + bytes, 0);
    // What the page names is loaded at once; other views when somebody goes there.
    const page = readFileSync(join(built, "index.html"), "utf8");
    const first = sizes.filter(({ name }) => page.includes(`assets/${name}`));
    expect(first.length).toBeGreaterThanOrEqual(3);
    expect(sum(first)).toBeLessThan(60_000);
    expect(sum(sizes)).toBeLessThan(120_000);
  });
});
