import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { createSessionList } from "./session-list.ts";

const call = {
  kind: "request",
  direction: "c2s",
  route: "work",
  principal: "anonymous",
  client: "claude-code",
  revision: "2026-07-28",
  transport: "http",
  method: "tools/call",
  target: "add",
  state: "ok",
} as const;

/** Session lists read only these members. */
function sessionsOf(...newestFirst: readonly object[]) {
  const list = createSessionList();
  for (const [index, record] of newestFirst.entries())
    list.add({ ...call, at: 1000 - index, ...record } as unknown as ExchangeRecord);
  return list.finish();
}

const fromServer = { direction: "s2c", kind: "notification", transport: "in-process" } as const;
const { client: _, ...unnamed } = call;

describe("the list of sessions", () => {
  it("describes a client by what it sent, not by what its server sent last", () => {
    const list = createSessionList();
    list.add({ ...unnamed, ...fromServer, at: 1000 } as unknown as ExchangeRecord);
    list.add({ ...call, at: 999 } as unknown as ExchangeRecord);
    expect(list.finish()).toMatchObject([
      { client: "claude-code", transport: "http", revision: "2026-07-28", calls: 1 },
    ]);
  });

  it("tells clients without sessions apart by their names", () => {
    const found = sessionsOf({}, { client: "cursor" }, {}, { ...unnamed, client: undefined });
    expect(found.map(({ client, calls, filter }) => [client, calls, filter])).toEqual([
      ["claude-code", 2, 'principal:"anonymous" client:"claude-code" route:"work" !session:*'],
      ["cursor", 1, 'principal:"anonymous" client:"cursor" route:"work" !session:*'],
      [undefined, 1, 'principal:"anonymous" !client:* route:"work" !session:*'],
    ]);
  });

  it("names what a client used, and not the tasks that came of it", () => {
    expect(sessionsOf({ method: "tasks/get", target: "786512e2" }, {})).toMatchObject([{ calls: 2, targets: ["add"] }]);
  });

  it("counts a call once, however many servers were asked for it", () => {
    const asked = { parent: "a-1", transport: "in-process", client: "headgate" };
    expect(sessionsOf({ ...asked, state: "error" }, asked, { method: "tools/list" })).toMatchObject([
      { calls: 1, errors: 0, client: "claude-code" },
    ]);
  });

  it("knows a session of which the window has only what the server sent", () => {
    expect(sessionsOf(fromServer)).toMatchObject([{ calls: 0, transport: "in-process" }]);
  });
});
