import { describe, expect, it } from "vitest";
import { idFrom } from "../protocol/message.ts";
import { principalNamed } from "../../test/support/principals.ts";
import { resultMessage } from "../core/reply.ts";
import { Session } from "./session.ts";

const open = (): Session => new Session("ours", "files", principalNamed("alice"), 0, 1000);

describe("session", () => {
  it("[SC-046] keeps its own id and the upstream's apart, with an explicit mapping", () => {
    const session = open();
    expect([session.id, session.upstreamId]).toEqual(["ours", undefined]);
    session.readUpstream = () => ({ id: "theirs", at: "there" });
    expect([session.id, session.upstreamId]).toEqual(["ours", "theirs"]);
  });

  it("[SC-071] goes from initializing to active to a final state, and stays there", () => {
    const session = open();
    expect(session.state).toBe("initializing");
    session.state = "active";
    session.end("done");
    expect([session.state, session.isOver]).toEqual(["closed", true]);
    session.end("again");
    expect(session.state).toBe("closed");
  });

  it("delivers an answer to its requester, once, and tells ids of different type apart", () => {
    const session = open();
    const answers: string[] = [];
    session.awaitResponse(idFrom(1), () => answers.push("number"));
    session.awaitResponse(idFrom("1"), () => answers.push("string"));
    expect(session.deliverResponse(resultMessage(idFrom("1"), "{}"))).toBe(true);
    expect(session.deliverResponse(resultMessage(idFrom("1"), "{}"))).toBe(false);
    expect(session.deliverResponse(resultMessage(idFrom(2), "{}"))).toBe(false);
    expect(answers).toEqual(["string"]);
  });

  it("does not wait for an answer that was given up", () => {
    const session = open();
    const giveUp = session.awaitResponse(idFrom(1), () => {
      expect.unreachable();
    });
    giveUp();
    expect(session.deliverResponse(resultMessage(idFrom(1), "{}"))).toBe(false);
  });

  it("keeps the credentials of its principal that hold for longest, and nobody else's", () => {
    const brief = principalNamed("alice", { expiresAt: 1 });
    const session = new Session("s", "r", brief, 0, 1000);
    const long = principalNamed("alice", { expiresAt: 2 });
    session.renew(long);
    session.renew(brief);
    session.renew(principalNamed("bob", { expiresAt: 3 }));
    expect(session.principal).toBe(long);
    const always = principalNamed("alice");
    session.renew(always);
    session.renew(long);
    expect(session.principal).toBe(always);
  });

  it("tells everybody once when it ends, except who no longer wants to know", () => {
    const session = open();
    const told: string[] = [];
    session.onEnd((reason) => told.push(reason));
    session.onEnd(() => told.push("never"))();
    session.end("bye");
    session.end("bye again");
    expect(told).toEqual(["bye"]);
  });
});
