import type { IncomingMessage, ServerResponse } from "node:http";

import { describe, expect, it } from "vitest";

import { localConfig } from "../../../test/support/local-gateway.ts";
import { accessRulesOf, adminAccessRulesOf, createAccessControl } from "./access.ts";

const rules = { isLoopback: true, allowedHosts: ["gate.example"], allowedOrigins: ["https://caller.example"] };
const access = createAccessControl(rules, ["https://reader.example"]);

function preflight(origin: string) {
  const headers: Record<string, string> = {};
  const request = { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } };
  const response = {
    setHeader: (name: string, value: string) => {
      headers[name] = value;
    },
    writeHead: (_status: number, more: Record<string, string>) => Object.assign(headers, more),
    end: () => {},
  };
  // Only these members are used.
  const isHandled = access.handleCors(request as unknown as IncomingMessage, response as unknown as ServerResponse);
  return { isHandled, headers };
}

describe("access control", () => {
  it.each([
    ["localhost:8484", undefined, true],
    ["gate.example", "https://caller.example", true],
    ["gate.example:443", "https://READER.example", true],
    ["[::1]:1", "http://localhost:3000", true],
    ["evil.example", undefined, false],
    ["[::1].evil.example", undefined, false],
    ["[::1]evil.example:80", undefined, false],
    ["localhost:evil.example", undefined, false],
    ["localhost:80:evil.example", undefined, false],
    ["localhost@evil.example", undefined, false],
    ["[::1", undefined, false],
    ["", undefined, false],
    [undefined, undefined, false],
    ["localhost", "https://evil.example", false],
    ["localhost", "null", false],
  ])("decides about Host %s with Origin %s", (host, origin, isAllowed) => {
    expect(access.problem(host, origin) === undefined).toBe(isAllowed);
  });

  it.each(["127.0.0.1", "127.0.0.2", "::1", "gate.localhost"])(
    "takes %s as its own name where it listens there",
    (host) => {
      const config = localConfig({ upstream: { demo: true }, listen: { host }, admin: { host } });
      const sent = host.includes(":") ? `[${host}]` : host;
      for (const own of [accessRulesOf(config), adminAccessRulesOf(config)]) {
        const control = createAccessControl(own, []);
        expect([control.problem(`${sent}:8484`, undefined), control.problem("evil.example", undefined)?.code]).toEqual([
          undefined,
          "host_not_allowed",
        ]);
      }
    },
  );

  it("answers preflights of pages that may read, and no others", () => {
    expect(preflight("https://reader.example")).toMatchObject({
      isHandled: true,
      headers: { "access-control-allow-origin": "https://reader.example", vary: "Origin" },
    });
    expect(preflight("https://caller.example")).toEqual({ isHandled: false, headers: { vary: "Origin" } });
  });
});
