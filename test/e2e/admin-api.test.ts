import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { endpoints } from "../../src/gateway/admin/endpoints/endpoints.ts";
import { createSignIn, type Right } from "../../src/gateway/admin/sign-in/sign-in.ts";
import { openAdmin } from "../support/admin.ts";
import { exchange, type RawRequest } from "../support/raw-http.ts";

/** A path with something in each place. */
const sample = (path: string): string => path.replaceAll(/\{\w+\}/gu, "x");

let admin: Awaited<ReturnType<typeof openAdmin>>;

beforeAll(async () => {
  admin = await openAdmin();
});

afterAll(async () => {
  await admin[Symbol.asyncDispose]();
});

/** The cookie of somebody with some rights only; the key of cookies is made of the gateway's token. */
function cookieWith(host: string, ...rights: readonly Right[]): string {
  const ended = { add: () => {}, has: () => false, close: () => {} };
  const signIn = createSignIn(admin.token, { clock: { wall: Date.now }, setTimer: () => () => {}, ended, roles: "" });
  return signIn.start({ name: "vera", rights }, { headers: { host }, isSecure: false }, 60_000).split(";")[0] ?? "";
}

describe("the admin API", () => {
  it("says who is signed in and which routes there are", async () => {
    const { status, json, headers } = await admin.ask("/about");
    expect({ status, json }).toMatchObject({
      status: 200,
      json: { caller: { name: "owner" }, recording: true, routes: [{ name: "default", policy: "none" }] },
    });
    expect(headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  });

  it.each(endpoints.filter(({ right }) => right !== "none"))(
    "lets nobody use $method $path without signing in",
    async ({ method, path }) => {
      for (const headers of [{}, { authorization: "Bearer wrong" }, { cookie: "headgate-1=x.y" }]) {
        const answer = await exchange(`${admin.root}${sample(path)}`, { method, headers });
        expect(answer).toMatchObject({ status: 401, json: { error: { code: "unauthenticated" } } });
      }
    },
  );

  it.each(endpoints.filter(({ right }) => right !== "none" && right !== "view"))(
    "lets nobody use $method $path without its right",
    async ({ method, path, right }) => {
      const cookie = cookieWith(new URL(admin.root).host, "view");
      const answer = await exchange(`${admin.root}${sample(path)}`, { method, headers: { cookie } });
      const message = expect.stringContaining(`needs the right \`${right}\``) as string;
      expect(answer).toMatchObject({ status: 403, json: { error: { code: "insufficient_scope", message } } });
    },
  );

  it("lets nobody try other rules who may only look, but those of the route", async () => {
    const cookie = cookieWith(new URL(admin.root).host, "view");
    const explain = (more: object) =>
      exchange(`${admin.root}/policy/explain`, {
        method: "POST",
        headers: { cookie, "content-type": "application/json" },
        body: { route: "default", method: "tools/call", params: { name: "add" }, ...more },
      });
    expect(await explain({ text: "rules: []" })).toMatchObject({
      status: 403,
      json: { error: { code: "insufficient_scope" } },
    });
    expect((await explain({})).status).not.toBe(403);
  });

  it("lets nobody read messages through the tools that serve them without the right to", async () => {
    await using other = await openAdmin({
      routes: {
        memory: { upstream: { recordings: true } },
        joined: { upstreams: { memory: { recordings: true }, demo: { demo: true } } },
        demo: { upstream: { demo: true } },
      },
      upstream: undefined,
    });
    const headers = {
      cookie: cookieWith(new URL(other.root).host, "view", "operate"),
      "content-type": "application/json",
    };
    const call = { method: "tools/call", params: { name: "find_exchanges", arguments: {} } };
    for (const [path, body] of [
      ["/playground/offers", {}],
      ["/playground/calls", call],
    ] as const) {
      const statuses = ["memory", "joined", "demo"].map(async (route) => {
        const answer = await exchange(`${other.root}${path}`, { method: "POST", headers, body: { route, ...body } });
        return answer.status;
      });
      expect(await Promise.all(statuses)).toEqual([403, 403, 200]);
      expect((await other.send(path, { route: "memory", ...body })).status).toBe(200);
    }
  });

  it.each(endpoints)("keeps pages of other origins from $method $path", async ({ method, path }) => {
    for (const headers of [
      { origin: "http://127.0.0.1:1" },
      { origin: "null" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site" },
    ]) {
      const answer = await admin.ask(sample(path), { method, headers });
      expect(answer.status).toBe(403);
    }
  });

  it.each(endpoints.filter(({ body, right }) => body !== undefined && right === "none"))(
    "takes no large body for $method $path from somebody it does not know",
    async ({ method, path }) => {
      const body = JSON.stringify({ ticket: "x".repeat(100_000) });
      const headers = { "content-type": "application/json" };
      const answer = await exchange(`${admin.root}${path}`, { method, headers, body: Buffer.from(body) });
      expect(answer).toMatchObject({ status: 413, json: { error: { code: "too_large" } } });
    },
  );

  it("answers unknown paths, methods and bodies in the same form", async () => {
    const json = { "content-type": "application/json" };
    const cases: readonly (readonly [string, RawRequest, number, string])[] = [
      ["/nothing", {}, 404, "not_found"],
      ["/about", { method: "PUT" }, 405, "method_not_found"],
      ["/about?x=1", {}, 400, "invalid_params"],
      ["/session", { method: "POST", body: "{}" }, 400, "invalid_params"],
      ["/session", { method: "POST", headers: json, body: "{" }, 400, "parse_error"],
      ["/session", { method: "POST", headers: json, body: {} }, 400, "invalid_params"],
      ["/session", { method: "POST", headers: json, body: { ticket: 5 } }, 400, "invalid_params"],
      ["/session", { method: "POST", headers: json, body: { ticket: "x", more: 1 } }, 400, "invalid_params"],
      ["/session", { method: "POST", headers: json, body: { ticket: "x.y" } }, 401, "unauthenticated"],
      ["/session", { method: "POST", headers: { ...json, "content-length": 5_000_000 }, body: "{}" }, 413, "too_large"],
    ];
    for (const [path, options, status, code] of cases) {
      const answer = await admin.ask(path, options);
      expect(answer).toMatchObject({ status, json: { error: { code, message: expect.any(String) as string } } });
    }
  });
});
