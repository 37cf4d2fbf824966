import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";

const answering: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: { content: [] } });

describe("an answer of PingAuthorize that is none", () => {
  it.each([
    "{}",
    '{"decision":"DENY"}',
    '{"error":"no such endpoint"}',
    '{"Response":{"response_code":"403"}}',
    "[]",
    "",
  ])("lets no call pass: %s", async (text) => {
    let isOdd = false;
    await using pdp = await fakeUpstream((call) => {
      if (isOdd) call.replyRaw(200, { "content-type": "application/json" }, text);
      else if (call.path.endsWith("/request")) call.reply(call.json);
      else call.reply({ ...Object(call.json) });
    });
    await using upstream = await legacyUpstream(answering);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      policy: {
        pingAuthorize: {
          serviceUrl: new URL(pdp.url).origin,
          sharedSecret: "s",
          secretHeaderName: "CLIENT-TOKEN",
          publicUrl: "https://mcp.example.com",
        },
      },
    });
    const session = await openSession(gateway.url);
    isOdd = true;
    expect(await session.post(toolCall(7, "transfer"))).toMatchObject({ json: { id: 7, error: expect.anything() } });
    expect(upstream.received("tools/call")).toEqual([]);
  });
});
