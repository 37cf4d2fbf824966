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

/** A running gateway, and a person at a terminal of the same user. */
async function startDesk(filter: string, options: readonly string[] = [], edit = "") {
  const data = temporaryFolder({ "editor.sh": `#!/bin/sh\nsed ${edit} "$1" > "$1.new" && cat "$1.new" > "$1"\n` });
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
    desk.type("l");
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
