import { readFileSync } from "node:fs";

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { expectAccessible } from "../support/axe.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { startChromium } from "../support/chromium.ts";
import { openConsole } from "../support/console.ts";
import { eventually } from "../support/eventually.ts";
import { nextMessage } from "../support/legacy-session.ts";
import { consoleClient, startOAuthServer } from "../support/oauth-server.ts";
import { exchange } from "../support/raw-http.ts";

const people = {
  vera: { preferred_username: "Vera", groups: ["staff"] },
  otto: { preferred_username: "Otto", groups: ["staff", "platform"] },
  anna: { preferred_username: "Anna", groups: ["security"] },
  nina: { preferred_username: "Nina", groups: ["visitors"] },
};

let browser: Browser & AsyncDisposable;
let opened: Awaited<ReturnType<typeof openWithOidc>>;
let user: keyof typeof people = "vera";

beforeAll(async () => {
  [browser, opened] = await Promise.all([startChromium(), openWithOidc()]);
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await opened[Symbol.asyncDispose]();
});

/** A console whose people sign in at a real OpenID provider, which lets them in without asking. */
async function openWithOidc() {
  const folder = temporaryFolder();
  const issuer = await startOAuthServer({ people, user: () => user });
  const roles = { viewer: ["staff"], operator: ["platform"], approver: ["security"], bodyReader: ["security"] };
  const { id: clientId, secret: clientSecret } = consoleClient;
  const audit = folder.at("audit.ndjson");
  const gateway = await openConsole({
    audit: { file: audit },
    admin: { port: 0, signIn: { issuer: issuer.issuer, clientId, clientSecret, roles } },
  });
  issuer.consoleRedirects.push(`${gateway.consoleUrl}callback`);
  await using client = await gateway.connect();
  await client.sdk.callTool({ name: "add", arguments: { a: 20, b: 22 } });
  await eventually(async () =>
    expect((await gateway.ask("/exchanges?filter=tool:add status:ok")).json).toMatchObject({ exchanges: [{}] }),
  );
  return {
    ...gateway,
    issuer,
    audit,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await issuer[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** A browser whose owner has pressed "Sign in". */
async function pressSignIn(who: keyof typeof people) {
  user = who;
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(opened.consoleUrl);
  await page.getByRole("link", { name: "Sign in" }).click();
  return { page, context, [Symbol.asyncDispose]: () => context.close() };
}

const inPage = (page: Page, path: string, init = "{}"): Promise<{ status: number; body: string }> =>
  page.evaluate(`fetch("../api/v1${path}", ${init}).then(async (r) => ({ status: r.status, body: await r.text() }))`);

async function cookieOf(context: BrowserContext) {
  const cookies = await context.cookies();
  const found = cookies.find(({ name }) => /^headgate-\d+$/u.test(name));
  if (found === undefined) throw new Error("no cookie");
  return found;
}

describe("signing in to the console by OpenID Connect", () => {
  it("gives a viewer the traffic and nothing of what messages say", async () => {
    await using at = await pressSignIn("vera");
    await at.page.getByRole("option", { name: /add/u }).first().click();
    await at.page.getByRole("tab", { name: "Messages" }).click();
    await at.page.getByText("You may not read messages.").first().waitFor();
    expect(await at.page.getByRole("complementary").innerText()).not.toContain("20 + 22");
    await expectAccessible(at.page, "a viewer's traffic");
    expect(JSON.parse((await inPage(at.page, "/about")).body)).toMatchObject({
      caller: { name: "Vera", rights: ["view"] },
    });
    const { exchanges } = JSON.parse((await inPage(at.page, "/exchanges?filter=tool:add")).body) as {
      readonly exchanges: readonly { readonly id: string }[];
    };
    const found = await inPage(at.page, `/exchanges/${encodeURIComponent(exchanges[0]?.id ?? "")}`);
    expect(found.status).toBe(200);
    expect(found.body).not.toMatch(/"body"|20 \+ 22/u);
    for (const view of ["playground", "held"]) {
      await at.page.goto(`${opened.consoleUrl}#/${view}`);
      await at.page.getByText("This is for operators").waitFor();
    }
    const told = await inPage(at.page, "/conversations?filter=tool:add");
    expect(JSON.parse(told.body)).toMatchObject({ turns: [{ summary: "Used the tool add" }] });
    expect(told.body).not.toMatch(/arguments|answer|20 \+ 22/u);
    // What would tell by whether it is found.
    const json = `{ method: "POST", headers: { "content-type": "application/json" }, body: "{}" }`;
    for (const [path, init] of [
      ["/exchanges?filter=text:22"],
      ["/exchanges?filter=22"],
      ["/exchanges?filter=tool:add and not (answer:22)"],
      ["/live?filter=request:22"],
      ["/figures?filter=text:22"],
      ["/sessions?filter=text:22"],
      ["/conversations?filter=text:22"],
      ["/topology?filter=text:22"],
      ["/policy/replay/x"],
      ["/policy/replay", json],
      ["/drift/approve", json],
      ["/playground/calls", json],
      ["/holds"],
    ] as const)
      expect({ path, status: (await inPage(at.page, path, init)).status }).toEqual({ path, status: 403 });
  });

  it("lets an approver read messages, and notes every look", async () => {
    await using at = await pressSignIn("anna");
    await at.page.getByRole("tab", { name: "Messages" }).click();
    await at.page.getByText("20 + 22 = 42").first().waitFor();
    const lines = await eventually(async () => {
      const text = readFileSync(opened.audit, "utf8");
      expect(text).toContain("recorded messages were read");
      const all = text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
      return all.filter(({ caller: name }) => name === "Anna");
    });
    const caller = { caller: "Anna", subject: `${opened.issuer.issuer}#anna` };
    expect(lines[0]).toMatchObject({
      ...caller,
      action: "signed in to the console",
      time: expect.any(String) as string,
    });
    expect(lines.find(({ action }) => action === "recorded messages were read")).toMatchObject({
      ...caller,
      exchange: expect.any(String) as string,
    });
    expect(JSON.stringify(lines)).not.toContain("20 + 22");
    expect(opened.issuer.tokenRequests.at(-1)).toMatchObject({
      grant_type: "authorization_code",
      code_verifier: expect.stringMatching(/^[\w-]{43}$/u) as string,
    });
  });

  it("leads back to what somebody wanted to see, after signing in and after a session has ended", async () => {
    user = "anna";
    await using context = await browser.newContext();
    const page = await context.newPage();
    const { exchanges } = (await opened.ask("/exchanges?filter=tool:add status:ok&limit=1")).json as {
      readonly exchanges: readonly { readonly id: string }[];
    };
    const address = `${opened.consoleUrl}#/exchange/${encodeURIComponent(exchanges[0]?.id ?? "")}?tab=messages`;
    await page.goto(address);
    const isThere = async (): Promise<void> => {
      await page.getByRole("region", { name: "Client side" }).getByText("20 + 22 = 42").waitFor();
      expect(page.url()).toBe(address);
    };
    await page.getByRole("link", { name: "Sign in" }).click();
    await isThere();
    await context.clearCookies();
    await page.getByText("Your session has ended").waitFor();
    await page.getByRole("link", { name: "Sign in" }).click();
    await isThere();
    // Who signs out leaves nothing behind for the next person.
    await page.getByRole("button", { name: /^Sign out/u }).click();
    await page.getByText("You have signed out").waitFor();
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByRole("listbox", { name: "Exchanges" }).waitFor();
  });

  it("shows no one in who has no role, and says so", async () => {
    await using at = await pressSignIn("nina");
    await at.page.getByText("have no role here").waitFor();
    expect(await at.page.getByRole("navigation").count()).toBe(0);
    expect(await at.context.cookies(opened.consoleUrl)).not.toContainEqual(
      expect.objectContaining({ name: expect.stringMatching(/^headgate-(?:login-)?\d+$/u) as string }),
    );
    // The address chooses a text and is none.
    await at.page.goto(`${opened.consoleUrl}#/failed/${encodeURIComponent("<b>call 555-1234</b>")}`);
    await at.page.getByRole("link", { name: "Sign in" }).waitFor();
    expect(await at.page.getByText("555").count()).toBe(0);
  });

  it("ends the session on the gateway when somebody signs out, with its streams, for every copy of the cookie", async () => {
    await using at = await pressSignIn("otto");
    await at.page.getByRole("navigation", { name: "Views" }).waitFor();
    const { name, value, expires, httpOnly, sameSite } = await cookieOf(at.context);
    expect({ httpOnly, sameSite }).toEqual({ httpOnly: true, sameSite: "Strict" });
    expect(expires - Date.now() / 1000).toBeGreaterThan(11 * 3600);
    expect(expires - Date.now() / 1000).toBeLessThan(12 * 3600 + 60);
    const copy = { headers: { cookie: `${name}=${value}` } };
    expect((await exchange(`${opened.root}/about`, copy)).status).toBe(200);
    // An operator handles messages without reading them.
    const replay = JSON.stringify({ route: "default", text: 'rules: [{ id: a, deny: "mcp.arguments.b == 22" }]' });
    const json = { ...copy.headers, "content-type": "application/json" };
    const sent = { method: "POST", headers: json, body: replay };
    expect((await exchange(`${opened.root}/policy/replay`, sent)).status).toBe(403);
    expect((await exchange(`${opened.root}/holds/events?filter=tool:add%20request:22`, copy)).status).toBe(403);
    await using hold = await opened.stream("/holds/events?filter=tool:add%20~q");
    await nextMessage(hold);
    await using client = await opened.connect();
    const call = client.sdk.callTool({ name: "add", arguments: { a: 20, b: 22 } });
    await nextMessage(hold);
    const { held } = (await exchange(`${opened.root}/holds`, copy)).json as {
      readonly held: readonly { id: string }[];
    };
    expect(held).toMatchObject([{ target: "add" }]);
    expect(held[0]).not.toHaveProperty("text");
    const release = { method: "POST", headers: json, body: { action: "continue" } };
    expect((await exchange(`${opened.root}/holds/${held[0]?.id ?? ""}`, release)).status).toBe(200);
    expect(JSON.stringify(await call)).toContain("20 + 22 = 42");
    // Another page of the same person follows the traffic.
    const other = await at.context.newPage();
    await other.goto(opened.consoleUrl);
    await other.getByRole("status").getByText("live", { exact: true }).waitFor();
    await at.page.getByRole("button", { name: /Sign out/u }).click();
    await at.page.getByText("You have signed out").waitFor();
    expect((await exchange(`${opened.root}/about`, copy)).status).toBe(401);
    await other.getByText("Your session has ended").waitFor();
  });

  it("takes no answer that belongs to another browser, another login or another issuer", async () => {
    user = "vera";
    const begun = await exchange(`${opened.consoleUrl}sign-in`);
    const [flow = ""] = (begun.headers["set-cookie"]?.[0] ?? "").split(";");
    expect(begun.headers["set-cookie"]?.[0]).toMatch(/^headgate-login-\d+=.*; HttpOnly; SameSite=Lax; Max-Age=600$/u);
    const asked = new URL(begun.headers.location ?? "");
    expect(Object.fromEntries(asked.searchParams)).toMatchObject({
      code_challenge_method: "S256",
      scope: "openid profile email",
    });
    const good = await opened.issuer.approve(asked);
    const answers: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
      [good.search, {}],
      [good.search.replace(/state=[^&]*/u, "state=x"), { cookie: flow }],
      [good.search.replace(/iss=[^&]*/u, "iss=https%3A%2F%2Fother.example"), { cookie: flow }],
      [good.search.replace(/&iss=[^&]*/u, ""), { cookie: flow }],
      [good.search.replace(/code=[^&]*/u, "code=x"), { cookie: flow }],
      [good.search.replace(/code=[^&]*/u, "error=access_denied"), { cookie: flow }],
      ["", { cookie: flow }],
    ];
    for (const [search, headers] of answers) {
      const answer = await exchange(`${opened.consoleUrl}callback${search}`, { headers });
      expect({ search, to: answer.headers.location }).toEqual({ search, to: `${opened.consoleUrl}#/failed/refused` });
      expect(JSON.stringify(answer.headers["set-cookie"] ?? "")).not.toMatch(/headgate-\d+=\w/u);
    }
    const cross = await exchange(`${opened.consoleUrl}sign-in`, { headers: { "sec-fetch-site": "cross-site" } });
    expect(cross.headers.location).toContain("#/failed/refused");
  });

  it("takes an answer once, and asks the issuer about none of its copies", async () => {
    user = "vera";
    const begun = await exchange(`${opened.consoleUrl}sign-in`);
    const [flow = ""] = (begun.headers["set-cookie"]?.[0] ?? "").split(";");
    const { search } = await opened.issuer.approve(new URL(begun.headers.location ?? ""));
    const before = opened.issuer.tokenRequests.length;
    const answers = await Promise.all(
      Array.from({ length: 30 }, async () =>
        exchange(`${opened.consoleUrl}callback${search}`, { headers: { cookie: flow } }),
      ),
    );
    const taken = answers.filter(({ headers }) => headers.location === opened.consoleUrl);
    expect(taken).toHaveLength(1);
    expect(opened.issuer.tokenRequests).toHaveLength(before + 1);
    const again = await exchange(`${opened.consoleUrl}callback${search}`, { headers: { cookie: flow } });
    expect(again.headers.location).toBe(`${opened.consoleUrl}#/failed/refused`);
    expect(opened.issuer.tokenRequests).toHaveLength(before + 1);
  });
});
