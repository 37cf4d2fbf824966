import { setTimeout as sleep } from "node:timers/promises";

import type { Page } from "playwright-core";

import type { DriftedRoute } from "../../src/gateway/admin/queries/drifted-routes.ts";
import { emptyLock, formatLock, withApproved } from "../../src/recorder/drift/compare.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { temporaryFolder } from "./capture-file.ts";
import { openConsole } from "./console.ts";

const policy = {
  rules: [
    { id: "no-failures", deny: 'mcp.tool == "fail"', reason: "Tools that fail are not for agents." },
    { id: "small-sums", allow: 'mcp.tool == "add" && mcp.arguments.a < 1000.0' },
    { id: "everything-else", allow: "true" },
  ],
};

/** A place in the console: a view, or what it shows after somebody has done something there. */
export interface ConsolePlace {
  /** Names its picture. */
  readonly name: string;
  readonly path: string;
  /** A text that shows that the view is there. */
  readonly ready: string;
  /** What somebody does there. */
  readonly open?: (page: Page) => Promise<void>;
}

type Opened = Awaited<ReturnType<typeof openConsole>>;

/** A gateway whose demo server was used by a client, and every place of its console with something to see. */
export async function openConsoleTraffic() {
  const folder = temporaryFolder();
  const lock = folder.write("lock.json", formatLock(emptyLock));
  const opened = await openConsole({ policy, drift: { lock, mode: "warn" } });
  await using client = await opened.connect();
  await client.sdk.listTools();
  for (let number = 0; number < 24; number++)
    await client.sdk.callTool({ name: "add", arguments: { a: number, b: 40 } });
  await client.sdk.callTool({ name: "fail", arguments: {} }).catch(() => {});
  await client.sdk.callTool({ name: "count_slowly", arguments: { to: 3, delay_ms: 40 } }).catch(() => {});
  await client.sdk.readResource({ uri: "harbor://berths" });
  // What is recorded comes a little later: the sums from before it are not the last one.
  const { at: after } = await newestOf(opened, "uri:harbor://berths");
  await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
  const last = await newestOf(opened, "tool:add", after);
  const refused = await newestOf(opened, "tool:fail");
  folder.write("lock.json", await olderLock(opened));
  return {
    ...opened,
    last,
    places: placesOf(opened, last, refused),
    [Symbol.asyncDispose]: async () => {
      await opened[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** The newest exchange that a filter finds, once it is recorded whole; one from before `after` is not meant. */
async function newestOf({ ask }: Opened, filter: string, after = 0): Promise<ExchangeRecord> {
  for (;;) {
    const { json } = await ask(`/exchanges?filter=${encodeURIComponent(filter)}&limit=1`);
    const [newest] = (json as { exchanges: readonly ExchangeRecord[] }).exchanges;
    if (newest !== undefined && newest.state !== "open" && newest.at > after) return newest;
    await sleep(50);
  }
}

/** What somebody has approved when the tool `add` had another description and `fail` did not exist. */
async function olderLock({ ask }: Opened): Promise<string> {
  const { routes } = (await ask("/drift")).json as { readonly routes: readonly DriftedRoute[] };
  const offered = (routes[0]?.drifts ?? []).flatMap((drift) => (drift.offered === undefined ? [] : [drift.offered]));
  const approved = offered.flatMap((definition) =>
    definition.name === "fail"
      ? []
      : definition.name === "add"
        ? [
            {
              ...definition,
              fields: { ...definition.fields, description: "Adds two numbers and returns their\u200B sum." },
            },
          ]
        : [definition],
  );
  return formatLock(withApproved(emptyLock, "default", { approved, gone: [], at: Date.now() }));
}

function placesOf(opened: Opened, last: ExchangeRecord, refused: ExchangeRecord): readonly ConsolePlace[] {
  const exchange = `exchange/${encodeURIComponent(last.id)}`;
  const session = `sessions/${encodeURIComponent(`session:"${last.session ?? ""}"`)}`;
  const tab = (name: string) => async (page: Page) => page.getByRole("tab", { name }).click();
  return [
    { name: "live", path: "live", ready: "tools/call" },
    { name: "exchange", path: exchange, ready: "Rules for the request" },
    ...["Messages", "Changes", "Raw"].map((name) => ({
      name: `exchange-${name.toLowerCase()}`,
      path: exchange,
      ready: "Rules for the request",
      open: tab(name),
    })),
    { name: "refused", path: `exchange/${encodeURIComponent(refused.id)}`, ready: "Rules for the request" },
    { name: "sessions", path: "sessions", ready: "Last seen" },
    { name: "session", path: session, ready: "Notifications" },
    {
      name: "session-chosen",
      path: session,
      ready: "Notifications",
      open: async (page) => {
        await page.getByRole("application", { name: /^Timeline/u }).focus();
        await page.keyboard.press("ArrowRight");
        await page.getByRole("region", { name: "Where the time went" }).waitFor();
      },
    },
    {
      name: "conversation",
      path: session,
      ready: "Notifications",
      open: async (page) => {
        await page.getByRole("tab", { name: "Conversation" }).click();
        await page.getByText("2 + 40 = 42").first().waitFor();
      },
    },
    {
      name: "figures",
      path: "figures",
      ready: "What is used most",
      open: async (page) => page.getByRole("region", { name: "Map" }).waitFor(),
    },
    { name: "playground", path: "playground", ready: "book_berth" },
    {
      name: "playground-asked",
      path: "playground",
      ready: "book_berth",
      open: async (page) => {
        await page.getByRole("button", { name: /^book_berth/u }).click();
        await page.getByLabel(/ship/iu).first().fill("Ada");
        await page.getByRole("button", { name: "Call", exact: true }).click();
        await page.getByRole("alertdialog", { name: "The server asks" }).waitFor();
      },
    },
    {
      name: "playground-result",
      path: "playground",
      ready: "book_berth",
      open: async (page) => {
        await page.getByRole("button", { name: /^add/u }).click();
        await page.getByLabel(/^a\b/u).fill("2");
        await page.getByLabel(/^b\b/u).fill("40");
        await page.getByRole("button", { name: "Call", exact: true }).click();
        await page.getByText("2 + 40 = 42").first().waitFor();
      },
    },
    { name: "policy", path: "policy", ready: "Run over" },
    {
      name: "policy-run",
      path: "policy",
      ready: "Run over",
      open: async (page) => {
        const rules = page.getByLabel("Rules as YAML");
        await rules.fill(
          (await rules.inputValue()).replace("< 1000.0", "< 10.0").replace('allow: "true"', 'allow: mcp.tool != "add"'),
        );
        await page.getByRole("button", { name: "Run over" }).click();
        await page.getByText("would be refused").first().waitFor();
      },
    },
    { name: "drift", path: "drift", ready: "tool add" },
    { name: "held", path: "held", ready: "Nothing is held" },
    {
      name: "held-message",
      path: "held",
      ready: "Nothing is held",
      open: async (page) => {
        await page.getByLabel("Hold messages that match").fill("tool:add ~q");
        await page.getByRole("button", { name: "Hold what matches" }).click();
        await page.getByText("Matching messages are held here").waitFor();
        // It goes on when the page that holds it is left.
        void callOnce(opened);
        await page.getByRole("article", { name: "Held: add" }).waitFor();
      },
    },
    {
      name: "commands",
      path: "live",
      ready: "tools/call",
      open: async (page) => {
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox", { name: "Command" }).waitFor();
      },
    },
    {
      name: "wrong-filter",
      path: "live",
      ready: "tools/call",
      open: async (page) => {
        await page.getByLabel("Filter").fill("nonsense:x");
        await page.getByRole("alert").waitFor();
      },
    },
    {
      name: "filter-help",
      path: "live",
      ready: "tools/call",
      open: async (page) => {
        await page.getByRole("button", { name: "What can be searched for" }).click();
        await page.getByText("still running").waitFor();
      },
    },
    { name: "nowhere", path: "nowhere", ready: "Page not found" },
  ];
}

async function callOnce(opened: Opened): Promise<void> {
  await using client = await opened.connect();
  await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
}

/** Goes to a place as somebody who comes from elsewhere, so that nothing is left of what was done before. */
export async function goTo(page: Page, consoleUrl: string, { path, ready, open }: ConsolePlace): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`${consoleUrl}#/${path}`);
  await page.getByText(ready).filter({ visible: true }).first().waitFor();
  await open?.(page);
}
