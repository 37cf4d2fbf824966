import { describe, expect, it } from "vitest";

import { messageFrom } from "../../test/support/exchange.ts";
import { idFrom, type RequestMessage } from "../protocol/message.ts";
import { type BusyMember, RunningCalls } from "./running-calls.ts";

const call = (id: string | number, progressToken?: string | number): RequestMessage => {
  const meta = progressToken === undefined ? {} : { _meta: { progressToken } };
  const params = { name: "t", ...meta };
  const message = messageFrom(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params }));
  if (message.kind !== "request") throw new Error("not a request");
  return message;
};

const busyMember = (): BusyMember => ({ running: 0, onIdle: undefined });

describe("the running calls of a session", () => {
  it("are found by the keys of their ids until they are over", () => {
    const calls = new RunningCalls();
    const [one, two] = [busyMember(), busyMember()];
    const running = [calls.begin(call(1), one), calls.begin(call("1"), two), calls.begin(call(2), one)];
    expect(calls.memberOf(call(1).id.key)).toBe(one);
    expect(calls.memberOf(call("1").id.key)).toBe(two);
    running[0]?.end();
    expect(calls.memberOf(call(1).id.key)).toBeUndefined();
    expect(calls.memberOf(call("1").id.key)).toBe(two);
    expect(calls.memberOf(call(2).id.key)).toBe(one);
  });

  it("count for their member, which is told when the last one is over", () => {
    const calls = new RunningCalls();
    let idle = 0;
    const member: BusyMember = { running: 0, onIdle: () => idle++ };
    const [first, second] = [calls.begin(call(1), member), calls.begin(call(2), member)];
    expect(member.running).toBe(2);
    first.end();
    first.end();
    expect([member.running, idle]).toEqual([1, 0]);
    second.end();
    expect([member.running, idle]).toEqual([0, 1]);
  });

  it("let only their own members report progress", () => {
    const calls = new RunningCalls();
    const [one, two] = [busyMember(), busyMember()];
    const running = calls.begin(call(1, "p"), one);
    const { key } = idFrom("p");
    expect(calls.isTokenOfAnother(key, one)).toBe(false);
    expect(calls.isTokenOfAnother(key, two)).toBe(true);
    expect(calls.isTokenOfAnother(idFrom("q").key, two)).toBe(false);
    calls.begin(call(2, "p"), two);
    expect(calls.isTokenOfAnother(key, two)).toBe(false);
    running.end();
    expect(calls.isTokenOfAnother(key, one)).toBe(true);
  });
});
