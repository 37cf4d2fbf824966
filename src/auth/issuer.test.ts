import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { fakeAsk } from "../../test/support/tokens.ts";
import { GatewayError } from "../errors.ts";
import { createIssuer, isSafeUrl, issuerEndpoint, metadataLocations } from "./issuer.ts";

const url = "https://login.example/tenant";
const document = {
  issuer: url,
  jwks_uri: "https://login.example/keys",
  token_endpoint: "http://evil.example/t",
};

describe("the metadata of an issuer", () => {
  it("are looked for in the order of the specification", () => {
    expect(metadataLocations(url)).toEqual([
      "https://login.example/.well-known/oauth-authorization-server/tenant",
      "https://login.example/.well-known/openid-configuration/tenant",
      "https://login.example/tenant/.well-known/openid-configuration",
    ]);
    expect(metadataLocations("https://login.example/")).toHaveLength(2);
  });

  it.each(metadataLocations(url))("are found at %s", async (place) => {
    const { ask } = fakeAsk({ [place]: () => ({ json: document }) });
    const metadata = await createIssuer(url, ask, createFakeTime().clock).metadata();
    expect(metadata).toMatchObject({ jwksUri: document.jwks_uri, document });
    // A secret would go there in the clear.
    expect(metadata.tokenEndpoint).toBeUndefined();
  });

  it("are asked for once, and again after an hour", async () => {
    const [place = ""] = metadataLocations(url);
    const time = createFakeTime();
    const { ask, asked } = fakeAsk({ [place]: () => ({ json: document }) });
    const issuer = createIssuer(url, ask, time.clock);
    await Promise.all([issuer.metadata(), issuer.metadata()]);
    await issuer.metadata();
    expect(asked(place)).toBe(1);
    await time.advance(60 * 60_000);
    await issuer.metadata();
    expect(asked(place)).toBe(2);
  });

  it("of another issuer are not believed", async () => {
    const [place = ""] = metadataLocations(url);
    const { ask } = fakeAsk({ [place]: () => ({ json: { ...document, issuer: "https://evil.example" } }) });
    const { clock } = createFakeTime();
    await expect(createIssuer(url, ask, clock).metadata()).rejects.toMatchObject({
      code: "upstream_invalid",
    });
  });

  it("that cannot be had are an error, and are asked for again after a moment", async () => {
    const [place = ""] = metadataLocations(url);
    let isDown = true;
    const time = createFakeTime();
    const { ask, asked } = fakeAsk({
      [place]: () => {
        if (isDown) throw new GatewayError("upstream_unreachable", "away");
        return { json: document };
      },
    });
    const issuer = createIssuer(url, ask, time.clock);
    for (let caller = 0; caller < 3; caller++)
      await expect(issuer.metadata()).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(asked(place)).toBe(1);
    isDown = false;
    await time.advance(5000);
    expect(await issuer.metadata()).toMatchObject({ document });
  });
});

describe("an endpoint that an issuer names", () => {
  it.each([
    ["https://login.example", "https://keys.example/jwks", true],
    ["https://login.example", "http://keys.example/jwks", false],
    ["https://login.example", "http://127.0.0.1:8485/api", false],
    ["https://login.example", "https://127.0.0.1:8443/", false],
    ["https://login.example", "https://localhost/", false],
    ["https://login.example", "https://[::1]/", false],
    ["https://login.example", "https://[::ffff:127.0.0.1]/", false],
    ["https://login.example", "https://[::]/", false],
    ["https://login.example", "https://0.0.0.0/", false],
    ["https://login.example", "https://0x7f.1/", false],
    ["https://login.example", "https://printer.localhost/", false],
    ["https://login.example", "file:///etc/passwd", false],
    ["https://login.example", "", false],
    ["http://127.0.0.1:9000", "http://127.0.0.1:9000/jwks", true],
    ["http://localhost:9000", "http://[::1]:9000/jwks", true],
    ["http://localhost:9000", "https://keys.example/jwks", true],
  ])("of %s is %s: %s", (issuer, value, isTaken) => {
    expect(issuerEndpoint({ value }, "value", issuer)).toBe(isTaken ? value : undefined);
  });
});

describe("a URL that secrets may go to", () => {
  it.each([
    ["https://login.example", true],
    ["http://127.0.0.1:9000", true],
    ["http://localhost/x", true],
    ["http://[::1]:1", true],
    ["http://login.example", false],
    ["http://localhost.example", false],
    ["http://127.evil.example/token", false],
    ["http://127.0.0.1.evil.example", false],
    ["http://127.0.0.1@evil.example", false],
    ["http://evil.localhost", false],
    ["http://0x7f.1/x", true],
    ["http://128.0.0.1", false],
    ["http://[::2]", false],
    ["http://0.0.0.0", false],
    ["ftp://localhost", false],
    ["login", false],
  ])("%s: %s", (text, isSafe) => {
    expect(isSafeUrl(text)).toBe(isSafe);
  });
});
