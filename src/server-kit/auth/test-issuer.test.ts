import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createTestIssuer, testTokenPath } from "./test-issuer.ts";

const form = (fields: Record<string, string>, method = "POST") =>
  new Request(`http://localhost${testTokenPath}`, {
    method,
    ...(method === "POST" ? { body: new URLSearchParams(fields) } : {}),
  });
const known = { grant_type: "client_credentials", client_id: "mcp-client", client_secret: "dev-secret" };
const bearer = (token: string) => ({ header: () => `Bearer ${token}` });

describe("the test issuer", () => {
  it("[KO-144] gives its client a token with the scopes it asks for, and knows it again", async () => {
    const { clock } = createFakeTime();
    const issuer = createTestIssuer({ deployed: false, clock });
    const response = await issuer.handle(form({ ...known, scope: "clinical:operations other" }));
    const body = (await response?.json()) as Record<string, string>;
    expect(body).toMatchObject({
      token_type: "Bearer",
      expires_in: 3600,
      scope: "clinical:operations other",
    });
    expect(await issuer.authenticator.authenticate(bearer(body["access_token"] ?? ""))).toMatchObject({
      ok: true,
      principal: { id: "test:mcp-client", scopes: new Set(["clinical:operations", "other"]) },
    });
  });

  it("[KO-144] does not start when deployed", () => {
    expect(() => createTestIssuer({ deployed: true })).toThrow(/does not start when deployed/u);
  });

  it.each([
    [{ ...known, client_secret: "wrong" }, 401, "invalid_client"],
    [{ ...known, grant_type: "password" }, 400, "unsupported_grant_type"],
  ])("refuses %j", async (fields, status, error) => {
    const response = await createTestIssuer({ deployed: false }).handle(form(fields));
    expect(response?.status).toBe(status);
    expect(await response?.json()).toEqual({ error });
  });

  it("takes only posts, and only at its path", async () => {
    const issuer = createTestIssuer({ deployed: false });
    expect((await issuer.handle(form({}, "GET")))?.status).toBe(405);
    expect(await issuer.handle(new Request("http://localhost/other"))).toBeUndefined();
  });

  it("refuses unknown and expired tokens, and says nothing is there where nothing was sent", async () => {
    const time = createFakeTime();
    const issuer = createTestIssuer({ deployed: false, clock: time.clock, newToken: () => "t1" });
    await issuer.handle(form(known));
    const ask = async (token: string) => issuer.authenticator.authenticate(bearer(token));
    expect(await ask("t1")).toMatchObject({ ok: true });
    expect(await ask("t2")).toMatchObject({ failure: { error: "invalid_token" } });
    await time.advance(3_600_000);
    expect(await ask("t1")).toMatchObject({ failure: { error: "invalid_token" } });
    expect(await issuer.authenticator.authenticate({ header: () => undefined })).toMatchObject({
      failure: { error: "missing" },
    });
  });
});
