import { chmodSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

import { startConfigured, temporaryFolder } from "../support/configured-gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream } from "../support/legacy-upstream.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { eventually } from "../support/eventually.ts";

const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");
const echo: Answering = (call, { id, params }) =>
  id === undefined ? call.replyRaw(202) : call.reply(textResult(id, String(params?.["name"])));

/** An editor that changes the text with sed. */
const editing = (change: string): string => `sed ${change} "$1" > "$1.new" && cat "$1.new" > "$1"`;

/** A running gateway, and a person at a terminal of the same user. */
async function startDesk(filter: string, options: readonly string[] = [], edit = "", script = editing(edit)) {
  const data = temporaryFolder({ "editor.sh": `#!/bin/sh\n${script}\n` });
  chmodSync(join(data.path, "editor.sh"), 0o700);
  const env = { XDG_DATA_HOME: data.path, EDITOR: join(data.path, "editor.sh"), VISUAL: undefined };
  const upstream = await legacyUpstream(echo);
  const gateway = await startConfigured({ admin: { port: 0 }, upstream: { url: upstream.url } }, {}, { env });
  const [, admin = ""] = await gateway.process.waitForLine(/(http:\/\/[^\s/]+)\/readyz/u);
  const command = await startProcess([process.execPath, bin, "intercept", filter, "--url", admin, ...options], { env });
  await command.waitForLine(/holding messages that match/u);
  const session = await openSession(gateway.url);
  const desk = {
    upstream,
    gateway,
    admin,
    command,
    session,
    data: data.path,
    type: (line: string) => command.stdin.write(`${line}\n`),
    [Symbol.asyncDispose]: async () => {
      await command[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
      data[Symbol.dispose]();
    },
  };
  return desk;
}

/** Waits for the next held message beyond those seen. */
const seen = new WeakMap<RunningProcess, number>();
async function nextHeld(command: RunningProcess): Promise<string> {
  const before = seen.get(command) ?? 0;
  return eventually(() => {
    const all = [...command.output().matchAll(/^(?<id>\S+) [→←] /gmu)];
    const next = all[before];
    if (next === undefined) throw new Error("nothing is held yet");
    seen.set(command, before + 1);
    return next.groups?.["id"] ?? "";
  });
}

describe("headgate intercept", () => {
  it("[SC-063, SC-064] lets messages go, drops and answers them as typed; others pass", async () => {
    await using desk = await startDesk("tool:held ~q");
    const { session, upstream, command } = desk;
    expect((await session.post(toolCall(1, "free"))).text).toContain("free");

    const first = session.post(toolCall(2, "held"));
    await nextHeld(command);
    expect(upstream.received("tools/call")).toHaveLength(1);
    desk.type("r");
    expect((await first).json).toEqual(textResult(2, "held"));

    const second = session.post(toolCall(3, "held"));
    await nextHeld(command);
    desk.type("d not today");
    expect((await second).json).toMatchObject({ id: 3, error: { message: "not today", data: { origin: "gateway" } } });

    const third = session.post(toolCall(4, "held"));
    await nextHeld(command);
    desk.type('a {"result":{"content":[{"type":"text","text":"by hand"}]}}');
    expect((await third).json).toEqual(textResult(4, "by hand"));
    expect(upstream.received("tools/call")).toHaveLength(2);
  });

  it("[SC-063] asks once about each message, however many more come meanwhile", async () => {
    await using desk = await startDesk("tool:held ~q");
    const calls = [1, 2, 3, 4].map(async (id) => desk.session.post(toolCall(id, "held")));
    for (const _call of calls) {
      const id = await nextHeld(desk.command);
      desk.type("r");
      await desk.command.waitForLine(new RegExp(`released ${id}`, "u"));
    }
    for (const call of calls) expect((await call).text).toContain("held");
    expect(desk.command.output()).toMatch(/1 more held\)/u);
    expect(desk.command.output().split("[q]uit? ")).toHaveLength(calls.length + 1);
  });

  it("[SC-065] keeps every byte that was not edited in $EDITOR", async () => {
    await using desk = await startDesk("tool:held ~q", [], "'s/small/LARGE/'");
    const text =
      '{"jsonrpc":"2.0", "id":9007199254740993,"method":"tools/call",  "params":{"name":"held","arguments":{"n":1.50,"size":"small","u":"\\u00e9"}}}';
    const answer = desk.session.post(text);
    await nextHeld(desk.command);
    desk.type("edit");
    expect((await answer).text).toContain("9007199254740993");
    // The id towards the server is the gateway's own.
    const rest = (sent: string): string => sent.replace(/"id":[^,]+,/u, "");
    expect(rest(desk.upstream.received("tools/call")[0]?.text ?? "")).toBe(rest(text).replace("small", "LARGE"));
  });

  it.each([
    ["fails", "exit 3", /the editor failed/u],
    ["is not there", "exec no-such-editor", /the editor failed/u],
    ["leaves no JSON", 'echo "{ nonsense" > "$1"', /not a JSON object/u],
    ["leaves nothing", ': > "$1"', /not a JSON object/u],
    ["leaves a list", 'echo "[]" > "$1"', /not a JSON object/u],
    ["changes the id", `sed 's/"id": 1/"id": 2/' "$1" > "$1.new" && cat "$1.new" > "$1"`, /the id cannot change/u],
  ])("[SC-065] keeps a message held, as it was, when the editor %s", async (_what, script, expected) => {
    await using desk = await startDesk("tool:held ~q", [], "", script);
    const answer = desk.session.post(toolCall(1, "held"));
    await nextHeld(desk.command);
    desk.type("edit");
    await desk.command.waitForLine(expected);
    expect(desk.upstream.received("tools/call")).toEqual([]);
    desk.type("r");
    expect((await answer).json).toEqual(textResult(1, "held"));
    expect(desk.upstream.received("tools/call")).toHaveLength(1);
  });

  it("[SC-063] has each message decided by one of two people who hold it", async () => {
    await using desk = await startDesk("tool:held ~q");
    const args = [process.execPath, bin, "intercept", "tool:held ~q", "--url", desk.admin] as const;
    await using other = await startProcess(args, { env: { XDG_DATA_HOME: desk.data } });
    await other.waitForLine(/holding messages that match/u);
    const answer = desk.session.post(toolCall(1, "held"));
    await nextHeld(desk.command);
    desk.type("d first");
    // The second one is asked about the same message only if the first let it go.
    expect((await answer).json).toMatchObject({ id: 1, error: { message: "first" } });
    const next = desk.session.post(toolCall(2, "held"));
    await nextHeld(desk.command);
    desk.type("r");
    await eventually(() => expect(other.output()).toMatch(/→ tools\/call held/u));
    other.stdin.write("d second\n");
    expect((await next).json).toMatchObject({ id: 2, error: { message: "second" } });
    expect(desk.upstream.received("tools/call")).toEqual([]);
  });

  it("[SC-064] refuses what is held when the gateway stops, and says that it has ended", async () => {
    await using desk = await startDesk("tool:held ~q");
    const answer = desk.session.post(toolCall(1, "held"));
    await nextHeld(desk.command);
    await desk.gateway.process.stop();
    expect((await answer).json).toMatchObject({ id: 1, error: { data: { origin: "gateway" } } });
    expect(await desk.command.exited).toMatchObject({ code: 1 });
    expect(desk.command.output()).toContain("the gateway has ended");
    expect(desk.upstream.received("tools/call")).toEqual([]);
  });

  it("[SC-065] edits answers too", async () => {
    await using desk = await startDesk("tool:held ~s", [], "'s/held/seen/'");
    const answer = desk.session.post(toolCall(1, "held"));
    await nextHeld(desk.command);
    desk.type("e");
    expect((await answer).json).toEqual(textResult(1, "seen"));
  });

  it.each([
    ["block", /nobody decided/u],
    ["continue", /"text":"held"/u],
  ])("does what --on-timeout %s says when nobody decides", async (action, expected) => {
    await using desk = await startDesk("tool:held ~q", ["--timeout", "300ms", "--on-timeout", action]);
    expect((await desk.session.post(toolCall(1, "held"))).text).toMatch(expected);
    await desk.command.waitForLine(/is no longer held/u);
  });

  it.each(["q", undefined])("lets held messages go when the holder leaves (%s)", async (typed) => {
    await using desk = await startDesk("tool:held ~q");
    const held = [1, 2, 3].map((id) => desk.session.post(toolCall(id, "held")));
    await nextHeld(desk.command);
    if (typed === undefined) process.kill(desk.command.pid, "SIGKILL");
    else desk.type(typed);
    for (const answer of held) expect((await answer).text).toContain('"text":"held"');
    if (typed !== undefined) expect(await desk.command.exited).toMatchObject({ code: 0 });
    await desk.gateway.process.waitForLine(/holding no more/u);
    expect((await desk.session.post(toolCall(9, "held"))).text).toContain('"text":"held"');
  });

  it("refuses filters that cannot be decided while a message is on its way", async () => {
    await using desk = await startDesk("tool:held");
    const args = [process.execPath, bin, "intercept", "dur:>1s", "--url", desk.admin] as const;
    await using wrong = await startProcess(args, { env: { XDG_DATA_HOME: desk.data } });
    expect(await wrong.exited).toMatchObject({ code: 2 });
    expect(wrong.output()).toContain("`dur` is not known while a message is on its way");
  });
});
