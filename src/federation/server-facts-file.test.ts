import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { MemberFacts } from "./member-facts.ts";
import { openServerFactsStore } from "./server-facts-file.ts";

const facts = (text: string) => ({ capabilities: { tools: { listChanged: true } }, instructions: text });

describe("the store of what servers said", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-servers-"));
  let wall = 0;
  const open = () => openServerFactsStore(folder, () => ++wall);
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it("gives it to the next process, and replaces it", () => {
    const first = open();
    first.set("a", facts("one"));
    first.set("b", { capabilities: {}, instructions: undefined });
    first.set("a", facts("two"));
    first.close();
    const second = open();
    expect(second.get("a")).toEqual(facts("two"));
    expect(second.get("b")).toEqual({ capabilities: {}, instructions: undefined });
    expect(second.get("c")).toBeUndefined();
    second.close();
  });

  it("forgets a server that says too much now, and those not heard of for longest", () => {
    const store = open();
    store.set("a", facts("x".repeat(100_000)));
    expect(store.get("a")).toBeUndefined();
    for (let server = 0; server < 1001; server++) store.set(`s${server}`, facts(""));
    expect([store.get("s0"), store.get("s1"), store.get("s1000")]).toEqual([undefined, facts(""), facts("")]);
    store.close();
  });
});

describe("what members said", () => {
  it("is written where it is news, and another process's handshake tells less than our own", () => {
    const written: string[] = [];
    const store = { get: () => facts("old"), set: (server: string) => void written.push(server) };
    const members = new MemberFacts(
      () => store,
      (name) => `server of ${name}`,
    );
    expect([members.get("a"), members.lastKnown("a")]).toEqual([undefined, facts("old")]);
    members.learn("a", { capabilities: { prompts: {} }, instructions: undefined, revision: "2025-11-25" });
    expect(members.get("a")).toEqual({ capabilities: { prompts: {} }, instructions: "old", revision: "2025-11-25" });
    members.set("b", { ...facts("old"), revision: "2025-11-25" });
    expect(written).toEqual([]);
    members.set("a", facts("new"));
    members.learn("a", facts("older"));
    expect(members.lastKnown("a")).toEqual(facts("new"));
    members.forget("a");
    expect(members.get("a")).toBeUndefined();
    expect(written).toEqual(["server of a"]);
  });
});
