import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { stdioFixture } from "../support/fixture.ts";
import { openSession } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post, postHeaders } from "../support/raw-http.ts";

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

/** Holds the call of `hold` until a cancel or the call of `release`, and says in its answer which of them it was. */
const holding = `
  const write = (id, text) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [{ type: "text", text }] } }));
  let held;
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === "tools/call" && params.name === "hold") held = id;
    else if (method === "notifications/cancelled" && params.requestId === held) write(held, "cancelled");
    else if (id !== undefined) {
      if (method === "tools/call") write(held, "released");
      write(id, "ok");
    }
  });`;

describe("a call at a process that callers share", () => {
  it.each(["shared", "principal"] as const)("cannot be cancelled by another caller (%s)", async (sharing) => {
    const [command, args] = [process.execPath, ["-e", holding]];
    await using gateway = await openGateway({ upstream: { command, args, sharing, era: "modern" } });
    const call = (id: string, name: string) => modernRequest(id, "tools/call", { name, arguments: {} });
    const held = postModern(gateway.url, call("of-ann", "hold"));
    // It has come to the process once another one is answered.
    await postModern(gateway.url, modernRequest("list", "tools/list"));
    const { headers } = modernRequest(0, "notifications/cancelled");
    for (const requestId of ["of-ann", 0, 1, 2, 3, 4]) {
      const { body } = modernRequest(0, "notifications/cancelled", { requestId });
      const cancel = JSON.stringify(body).replace('"id":0,', "");
      expect((await post(gateway.url, cancel, { ...postHeaders, ...headers })).status).toBe(202);
    }
    await postModern(gateway.url, call("of-bob", "release"));
    expect((await held).text).toContain("released");
  });
});
