import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { revisions, type Revision } from "../../src/protocol/revisions.ts";
import { handshake, messageOf, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest } from "../support/modern-request.ts";
import { startProcess } from "../support/process.ts";
import { post } from "../support/raw-http.ts";

const list = (id: unknown) => ({ jsonrpc: "2.0", id, method: "tools/list" });
const listed = (id: unknown) => ({ jsonrpc: "2.0", id, result: { tools: [] } });
const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "gone" } };
const listing: Answering = (call, { id }) => (id === undefined ? call.replyRaw(202) : call.reply(listed(id)));

/** Every revision that has sessions and no batches. */
const without = (Object.keys(revisions) as Revision[]).filter(
  (revision) => revisions[revision].era === "legacy" && revision !== "2025-03-26" && revision !== "2024-11-05",
);

describe("a batch over HTTP", () => {
  it("[SC-032] of 2025-03-26 is answered as an array, of which notifications are no part", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-03-26");
    const answer = await session.post([list(1), cancelled, list("1"), list(0)]);
    expect(answer).toMatchObject({ status: 200, headers: { "content-type": "application/json" } });
    expect(answer.json).toHaveLength(3);
    expect(answer.json).toEqual(expect.arrayContaining([listed(1), listed("1"), listed(0)]));
    // Each member went its own way, alone.
    expect(upstream.received("tools/list").map((call) => sentMessage(call).id)).toEqual([1, "1", 0]);
    expect(upstream.received("notifications/cancelled")).toHaveLength(1);
  });

  it("[SC-032] of one request is still answered as an array", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-03-26");
    expect((await session.post([list(7)])).json).toEqual([listed(7)]);
    expect((await session.post(list(7))).json).toEqual(listed(7));
  });

  it("[SC-032] of which one answer streams is answered on a stream", async () => {
    const released = Promise.withResolvers<void>();
    await using upstream = await legacyUpstream(async (call, { id, method }) => {
      if (method !== "tools/call") {
        call.reply(listed(id));
        released.resolve();
        return;
      }
      const stream = call.stream();
      await released.promise;
      await stream.send({
        jsonrpc: "2.0",
        method: "notifications/message",
        params: { level: "info", data: "hi" },
      });
      await stream.send(textResult(id, "streamed"));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-03-26");
    const { status, events } = await session.post([toolCall(1, "streams"), list(2)]);
    expect(status).toBe(200);
    const messages = events.map(messageOf);
    expect(messages).toHaveLength(3);
    expect(messages).toEqual(
      expect.arrayContaining([
        listed(2),
        textResult(1, "streamed"),
        expect.objectContaining({ method: "notifications/message" }),
      ]),
    );
  });

  it("[SC-032] without any request is answered 202 and nothing more", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-03-26");
    expect(await session.post([cancelled, cancelled])).toMatchObject({ status: 202, text: "" });
    expect(await session.post([{ jsonrpc: "2.0", id: 5, result: {} }])).toMatchObject({
      status: 202,
      text: "",
    });
    expect(upstream.received("notifications/cancelled")).toHaveLength(2);
  });

  it("[SC-032] has a failure for each member that is wrong, and answers for the others", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-03-26");
    const { json } = await session.post([list(1), { jsonrpc: "2.0", id: 2, method: 5 }]);
    expect(json).toHaveLength(2);
    expect(json).toEqual(
      expect.arrayContaining([
        listed(1),
        expect.objectContaining({ id: 2, error: expect.objectContaining({ code: -32_600 }) }),
      ]),
    );
  });

  it.each(without)("[SC-030] of %s is refused as a whole, without an id", async (revision) => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, revision);
    const answer = await session.post([list(1)]);
    expect(answer).toMatchObject({
      status: 400,
      json: { error: { code: -32_600, data: { origin: "gateway" } } },
    });
    expect(answer.json).not.toHaveProperty("id");
    expect(upstream.received("tools/list")).toHaveLength(0);
    expect((await session.post(list(1))).json).toEqual(listed(1));
  });

  it("[SC-030] of modern requests is refused as a whole, without an id", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const { headers, body } = modernRequest(1, "tools/list");
    const answer = await post(gateway.url, [body], headers);
    expect(answer).toMatchObject({ status: 400, json: { error: { code: -32_600 } } });
    expect(answer.json).not.toHaveProperty("id");
    expect(upstream.calls).toHaveLength(0);
  });
});

describe("a batch on stdio", () => {
  const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");

  it("[SC-030] is answered with an error, and the connection goes on", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--upstream", upstream.url]);
    const say = (message: unknown): void => {
      gateway.stdin.write(`${JSON.stringify(message)}\n`);
    };
    say(handshake("2025-11-25", 1));
    await gateway.waitForLine(/"id":1,"result"|"result".*"id":1\b/u);
    say([list(2), list(3)]);
    const [refusal] = await gateway.waitForLine(/^.*-32600.*$/u);
    expect(JSON.parse(refusal)).toMatchObject({ error: { code: -32_600, data: { origin: "gateway" } } });
    expect(JSON.parse(refusal)).not.toHaveProperty("id");
    say(list(4));
    const [answer] = await gateway.waitForLine(/^.*"id":4.*$/u);
    expect(JSON.parse(answer)).toEqual(listed(4));
    expect(upstream.received("tools/list")).toHaveLength(1);
  });

  it("[SC-032] of 2025-03-26 is answered as an array on one line", async () => {
    await using upstream = await legacyUpstream(listing);
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--upstream", upstream.url]);
    const say = (message: unknown): void => {
      gateway.stdin.write(`${JSON.stringify(message)}\n`);
    };
    say(handshake("2025-03-26", 1));
    await gateway.waitForLine(/"protocolVersion":"2025-03-26"/u);
    say([list(2), list(3)]);
    const [line] = await gateway.waitForLine(/^\[.*\]$/u);
    expect(JSON.parse(line)).toEqual(expect.arrayContaining([listed(2), listed(3)]));
  });
});
