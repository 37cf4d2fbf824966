import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { HeldView } from "../../src/gateway/admin/endpoints/holds.ts";
import { newestLegacy } from "../../src/protocol/revisions.ts";
import { actionsIn, openAdmin } from "../support/admin.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { eventually } from "../support/eventually.ts";
import { nextMessage, openSession, toolCall } from "../support/legacy-session.ts";

/** A call of the demo's `add`, which answers with the sum. */
const sum = (id: number): unknown => toolCall(id, "add", { arguments: { a: 2, b: 40 } });

/** The ways to decide, and what the client then gets. */
const decisions = [
  ["continue", {}, { result: { structuredContent: { sum: 42 } } }],
  ["modify", { set: { "/params/arguments/b": 1 } }, { result: { structuredContent: { sum: 3 } } }],
  ["modify", { text: JSON.stringify(toolCall(1, "add", { arguments: { a: 1, b: 1 } })) }, { result: {} }],
  ["block", { reason: "not now" }, { error: { code: 4030, message: "not now" } }],
  ["answer", { answer: { result: { content: [] } } }, { result: { content: [] } }],
  ["answer", { answer: { error: { code: 7, message: "mine" } } }, { error: { code: 7, message: "mine" } }],
] as const;

describe("held messages over the admin API", () => {
  it.each(decisions)("[SC-063] are decided with %s %j", async (action, more, expected) => {
    using folder = temporaryFolder();
    const audit = folder.at("audit.ndjson");
    await using admin = await openAdmin({ audit: { file: audit } });
    await using stream = await admin.stream("/holds/events?filter=tool:add%20~q");
    expect(await nextMessage(stream)).toEqual({ held: [] });
    const session = await openSession(admin.url);
    const answer = session.post(sum(1));
    const held = (await nextMessage(stream)) as HeldView;
    expect(held).toMatchObject({ method: "tools/call", target: "add", direction: "c2s", phase: "request" });
    expect(JSON.parse(held.text ?? "")).toEqual(sum(1));
    expect((await admin.ask("/holds")).json).toEqual({ held: [held] });
    expect(await admin.send(`/holds/${held.id}`, { action, ...more })).toMatchObject({ status: 200 });
    expect((await answer).json).toMatchObject({ id: 1, ...expected });
    expect(await nextMessage(stream)).toMatchObject({ id: held.id });
    expect(await admin.send(`/holds/${held.id}`, { action: "continue" })).toMatchObject({ status: 404 });
    const { exchange } = held;
    const line = { action: "decided about a held message", caller: "owner", held: held.id, exchange, decision: action };
    await eventually(() => expect(actionsIn(audit)).toContainEqual(expect.objectContaining(line)));
  });

  it.each([
    [{ action: "modify", text: '{"jsonrpc":"2.0","id":2,"method":"tools/call"}' }, "the id cannot change"],
    [{ action: "modify", text: "not JSON" }, ""],
    [{ action: "modify", set: { "/nowhere/deep": 1 } }, ""],
    [{ action: "answer", answer: {} }, ""],
    [{ action: "explode" }, ""],
  ])("stay held when the decision %j cannot be carried out", async (decision, problem) => {
    await using admin = await openAdmin();
    await using stream = await admin.stream("/holds/events?filter=tool:add%20~q&timeout=1m");
    await nextMessage(stream);
    const session = await openSession(admin.url);
    const answer = session.post(sum(1));
    const { id } = (await nextMessage(stream)) as HeldView;
    const refused = await admin.send(`/holds/${id}`, decision);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(problem);
    await admin.send(`/holds/${id}`, { action: "continue" });
    expect((await answer).json).toMatchObject({ result: { structuredContent: { sum: 42 } } });
  });

  it("[SC-064] are fifty of one caller at most; what comes then is refused, and others are held as well", async () => {
    const keys = { ann: formatApiKey(new Uint8Array(32).fill(1)), bob: formatApiKey(new Uint8Array(32).fill(2)) };
    const hashes = Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, { hash: hashApiKey(key) }]));
    await using admin = await openAdmin({ auth: { authenticators: { team: { apiKeys: { keys: hashes } } } } });
    const sessionOf = (who: keyof typeof keys) =>
      openSession(admin.url, newestLegacy, { authorization: `Bearer ${keys[who]}` });
    const session = await sessionOf("ann");
    const held = await (async () => {
      await using _stream = await admin.stream("/holds/events?filter=tool:add%20~q");
      const answers = Array.from({ length: 50 }, async (_, id) => session.post(sum(id)));
      const isHolding = async (length: number) =>
        eventually(async () => expect((await admin.ask("/holds")).json).toMatchObject({ held: { length } }));
      await isHolding(50);
      const { json } = await session.post(sum(100));
      expect(json).toMatchObject({ id: 100, error: { data: { origin: "gateway" } } });
      expect(json).not.toHaveProperty("result");
      answers.push((await sessionOf("bob")).post(sum(101)));
      await isHolding(51);
      return answers;
    })();
    for (const answer of held)
      expect((await answer).json).toMatchObject({ result: { structuredContent: { sum: 42 } } });
  });

  it("go on when the stream that holds them ends", async () => {
    await using admin = await openAdmin();
    const session = await openSession(admin.url);
    let answer: ReturnType<typeof session.post>;
    {
      await using stream = await admin.stream("/holds/events?filter=tool:add");
      await nextMessage(stream);
      answer = session.post(sum(1));
      await nextMessage(stream);
    }
    expect((await answer).json).toMatchObject({ result: { structuredContent: { sum: 42 } } });
    expect((await admin.ask("/holds")).json).toEqual({ held: [] });
  });
});
