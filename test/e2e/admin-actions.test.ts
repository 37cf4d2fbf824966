import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import type { PolicyReport } from "../../src/gateway/evaluation/change-report.ts";
import { actionsIn, openAdmin } from "../support/admin.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { eventually } from "../support/eventually.ts";

const policy = {
  rules: [
    { id: "no-failures", deny: 'mcp.tool == "fail"' },
    { id: "rest", allow: "true" },
  ],
};

describe("the policy bench of the admin API", () => {
  it("shows the rules of a route, tries others on recorded traffic, and says which decisions change", async () => {
    await using admin = await openAdmin({ policy });
    await using client = await admin.connect();
    await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    await eventually(async () =>
      expect((await admin.ask("/exchanges?filter=tool:add status:ok")).json).toMatchObject({ exchanges: [{}] }),
    );
    const { json } = await admin.ask("/policies/default");
    const { text } = json as { readonly text: string };
    expect(text).toContain("no-failures");
    const stricter = text.replace('mcp.tool == "fail"', 'mcp.tool == "add"');
    const started = await admin.send("/policy/replay", { route: "default", text: stricter, minutes: 10 });
    const { job } = started.json as { readonly job: string };
    const report = await eventually(async () => {
      const answer = (await admin.ask(`/policy/replay/${job}`)).json as { state: string; report: PolicyReport };
      expect(answer.state).toBe("done");
      return answer.report;
    });
    expect(report).toMatchObject({
      counts: { "newly-denied": 1 },
      groups: [{ kind: "newly-denied", rule: "no-failures", target: "add", count: 1 }],
    });
  });

  it("explains a message that was never sent", async () => {
    await using admin = await openAdmin({ policy });
    const body = { route: "default", method: "tools/call", params: { name: "fail", arguments: {} } };
    expect(await admin.send("/policy/explain", body)).toMatchObject({
      status: 200,
      json: { policy: "rules", phases: [{ effect: "deny", rule: "no-failures" }] },
    });
  });

  it.each([
    ["/policy/replay", { route: "none", text: "rules: []" }, 404],
    ["/policy/replay", { route: "default", text: "rules: [" }, 422],
    ["/policy/replay", { route: "default", text: "rulez: []" }, 422],
    ["/policy/replay", { route: "default", text: "rules: [{ id: a, allow: '((' }]" }, 422],
    ["/policy/replay", { route: "default", text: "authzen: { url: 'https://pdp.example' }" }, 422],
    ["/policy/replay", { route: "default", text: 5 }, 400],
    ["/policy/explain", { route: "default", method: 5 }, 400],
    ["/policy/explain", { route: "default", method: "tools/call", text: "rules: 5" }, 422],
    ["/drift/approve", { route: "default", definitions: [{ key: "tool add", digest: "x" }], reason: "x" }, 404],
    ["/drift/approve", { route: "default", definitions: [], reason: "x" }, 400],
    ["/playground/offers", { route: "__proto__" }, 404],
    ["/playground/calls", { route: "default", method: "initialize", params: {} }, 400],
    ["/playground/calls/none/answers", { question: "1", action: "accept" }, 404],
  ])("answers %s with %j by saying what is wrong", async (path, body, status) => {
    await using admin = await openAdmin({ policy });
    const answer = await admin.send(path, body);
    expect({ status: answer.status, json: answer.json }).toMatchObject({
      status,
      json: { error: { code: expect.any(String) as string, message: expect.any(String) as string } },
    });
  });
});

describe("drift in the admin API", () => {
  it("lists what is not approved, and approves it in the lock file and nowhere else", async () => {
    using folder = temporaryFolder();
    const lock = folder.write("lock.json", JSON.stringify({ format: 1, routes: { default: {} } }));
    await using admin = await openAdmin({ drift: { lock, mode: "warn" } });
    await using client = await admin.connect();
    await client.sdk.listTools();
    const drifts = await eventually(async () => {
      const { json } = await admin.ask("/drift");
      const [route] = (json as { routes: { drifts: { key: string; type: string; digest: string }[] }[] }).routes;
      expect(route?.drifts).toContainEqual(expect.objectContaining({ key: "tool add", type: "added" }));
      return route?.drifts ?? [];
    });
    const send = (...definitions: readonly { readonly key: string; readonly digest: string }[]) =>
      admin.send("/drift/approve", { route: "default", definitions, reason: "read and found harmless" });
    const [add, other] = ["tool add", "tool book_berth"].map((key) => {
      const digest = drifts.find((one) => one.key === key)?.digest ?? "";
      return { key, digest };
    });
    if (add === undefined || other === undefined) throw new Error("no drifts");
    // What somebody has read is not what is offered now.
    expect(await send({ ...add, digest: other.digest })).toMatchObject({
      status: 400,
      json: { error: { message: expect.stringContaining("has changed since") as string } },
    });
    // Two people at once.
    const answers = await Promise.all([send(add), send(other)]);
    expect(answers).toMatchObject([
      { status: 200, json: { approved: 1 } },
      { status: 200, json: { approved: 1 } },
    ]);
    expect(
      Object.keys((JSON.parse(readFileSync(lock, "utf8")) as { routes: { default: object } }).routes.default),
    ).toEqual(["tool add", "tool book_berth"]);
    const { json } = await admin.ask("/drift");
    expect(json).toMatchObject({ routes: [{ drifts: { length: drifts.length - 2 } }] });
  });
});

describe("the playground of the admin API", () => {
  it("calls through policy, with progress, questions and the result", async () => {
    using folder = temporaryFolder();
    const audit = folder.at("audit.ndjson");
    await using admin = await openAdmin({ policy, audit: { file: audit } });
    const offers = await admin.send("/playground/offers", { route: "default" });
    expect(JSON.stringify(offers.json)).toContain("book_berth");
    const call = async (name: string, args: object) => {
      const { json } = await admin.send("/playground/calls", {
        route: "default",
        method: "tools/call",
        params: { name, arguments: args },
      });
      const { call: id } = json as { readonly call: string };
      return { id, stream: await admin.stream(`/playground/calls/${id}`) };
    };
    const refused = await call("fail", {});
    expect(await refused.stream.next()).toMatchObject({
      event: "failed",
      data: expect.stringContaining("4030") as string,
    });
    const slow = await call("count_slowly", { to: 20, delay_ms: 1 });
    const namesOn = async (stream: typeof slow.stream) => {
      const names = [];
      for (let event = await stream.next(); event !== undefined; event = await stream.next()) names.push(event.event);
      return names;
    };
    expect(await namesOn(slow.stream)).toEqual(expect.arrayContaining(["progress", "done"]));
    // Of any amount of progress no more is kept.
    expect(await namesOn(await admin.stream(`/playground/calls/${slow.id}`))).toEqual(["progress", "done"]);
    const booking = await call("book_berth", { ship: "Ada", nights: 2 });
    // A call that waits for a person reports progress, so that nothing on the way gives it up.
    const after = async (stream: typeof booking.stream) => {
      for (;;) {
        const event = await stream.next();
        if (event?.event !== "progress") return event;
      }
    };
    expect(await after(booking.stream)).toMatchObject({ event: "question" });
    await admin.send(`/playground/calls/${booking.id}/answers`, { question: "1", action: "decline" });
    expect(await after(booking.stream)).toMatchObject({ event: "done" });
    await admin.ask(`/playground/calls/${slow.id}`, { method: "DELETE" });
    const lines = [
      { action: "call from the console", route: "default", method: "tools/call" },
      { action: "answered a question of a call from the console", answer: "decline" },
      { action: "cancelled a call from the console" },
    ].map((line) => expect.objectContaining({ ...line, caller: "owner" }) as unknown);
    await eventually(() => expect(actionsIn(audit)).toEqual(expect.arrayContaining(lines)));
  });
});
