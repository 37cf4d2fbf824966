import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { stdioFixture } from "../support/fixture.ts";
import { openSession } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";

type Sharing = "session" | "principal" | "shared";

async function gatewayWith(sharing: Sharing): Promise<LocalGateway> {
  const [command, ...args] = stdioFixture({ era: "legacy" });
  const upstream: NonNullable<ConfigInput["upstream"]> = { command, args, sharing, era: "legacy" };
  return openGateway({ upstream });
}

describe("children of a stdio route", () => {
  it.each([
    ["session", 2],
    ["principal", 1],
    ["shared", 1],
  ] as const)("are shared as `sharing: %s` says", async (sharing, children) => {
    await using gateway = await gatewayWith(sharing);
    const running = (): string => gateway.gateway.metrics();
    const ann = await openSession(gateway.url, "2025-11-25");
    const bob = await openSession(gateway.url, "2025-11-25");
    expect(running()).toContain(`headgate_children{route="default"} ${children}\n`);
    const echo = (text: string): unknown => ({
      jsonrpc: "2.0",
      id: 1,
      method: "prompts/get",
      params: { name: "test_prompt_with_arguments", arguments: { arg1: text, arg2: "" } },
    });
    const answers = await Promise.all([ann.post(echo("for ann")), bob.post(echo("for bob"))]);
    expect(answers.map(({ text }) => text)).toEqual([
      expect.stringContaining("for ann"),
      expect.stringContaining("for bob"),
    ]);
    await ann.end();
    expect(await bob.post(echo("still here"))).toMatchObject({
      status: 200,
      text: expect.stringContaining("still here") as unknown,
    });
  });
});
