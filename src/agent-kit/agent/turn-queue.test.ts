import { describe, expect, it } from "vitest";

import { AgentError } from "../errors.ts";
import { parseAgentMessage, type AgentMessage } from "./messages.ts";
import { createTurnQueue } from "./turn-queue.ts";

const said = (text: string) => parseAgentMessage({ type: "assistant", message: { content: text } });
const result = (text: string) => parseAgentMessage({ type: "result", subtype: "success", result: text });

function open() {
  const lines: unknown[] = [];
  const interrupts: string[] = [];
  const turns = createTurnQueue({
    write: async (line) => {
      lines.push(JSON.parse(line));
    },
    interrupt: async () => {
      interrupts.push("now");
      turns.push(result("interrupted"));
    },
  });
  return { turns, lines, interrupts };
}

async function all(turn: AsyncIterable<AgentMessage>): Promise<string[]> {
  const texts: string[] = [];
  for await (const message of turn) texts.push("text" in message ? message.text : message.type);
  return texts;
}

describe("turns", () => {
  it("yield what comes up to the result, and begin with what came before", async () => {
    const { turns, lines } = open();
    turns.push(parseAgentMessage({ type: "system", subtype: "init" }));
    const turn = all(turns.run("hello"));
    turns.push(said("hi"));
    turns.push(result("done"));
    expect(await turn).toEqual(["system", "hi", "done"]);
    expect(lines).toEqual([
      { type: "user", message: { role: "user", content: "hello" }, parent_tool_use_id: null, session_id: "" },
    ]);
  });

  it("run one after the other", async () => {
    const { turns, lines } = open();
    const [one, two] = [all(turns.run("1")), all(turns.run("2"))];
    turns.push(result("first"));
    expect(await one).toEqual(["first"]);
    turns.push(result("second"));
    expect(await two).toEqual(["second"]);
    expect(lines).toHaveLength(2);
  });

  it("are interrupted when left, and their result is not taken for the next one's", async () => {
    const { turns, interrupts } = open();
    turns.push(said("blah"));
    for await (const message of turns.run("talk")) {
      expect(message.type).toBe("assistant");
      break;
    }
    expect(interrupts).toEqual(["now"]);
    const next = all(turns.run("again"));
    turns.push(result("new"));
    expect(await next).toEqual(["new"]);
  });

  it("[IP-075] end with the error when the agent fails, after what had come", async () => {
    const { turns } = open();
    const seen: string[] = [];
    const gone = new AgentError("cli_exited", "gone");
    const begun = Promise.withResolvers<void>();
    const running = (async () => {
      for await (const message of turns.run("x")) {
        seen.push("text" in message ? message.text : message.type);
        begun.resolve();
      }
    })();
    turns.push(said("one"));
    await begun.promise;
    turns.push(said("two"));
    turns.fail(gone);
    await expect(running).rejects.toBe(gone);
    expect(seen).toEqual(["one", "two"]);
    await expect(all(turns.run("y"))).rejects.toBe(gone);
  });

  it("end without an error when left after the agent has ended", async () => {
    const turns = createTurnQueue({
      write: async () => {},
      interrupt: async () => {
        throw new AgentError("cli_exited", "gone");
      },
    });
    turns.push(said("one"));
    const turn = turns.run("x");
    expect((await turn.next()).value).toMatchObject({ type: "assistant" });
    expect(await turn.return()).toEqual({ value: undefined, done: true });
  });

  const replayed = (line: unknown) =>
    parseAgentMessage({
      type: "user",
      message: { content: "x" },
      isReplay: true,
      uuid: Reflect.get(Object(line), "uuid"),
    });

  it("take what steers them, and end with one result whether the CLI merges it or not", async () => {
    for (const isMerged of [true, false]) {
      const { turns, lines } = open();
      const seen = all(turns.run("first"));
      await expect.poll(() => lines).toHaveLength(1);
      await turns.steer("also");
      if (isMerged) turns.push(replayed(lines[1]));
      turns.push(said("one"));
      turns.push(result("done"));
      if (!isMerged) {
        turns.push(replayed(lines[1]));
        turns.push(said("two"));
        turns.push(result("really done"));
      }
      expect(await seen).toEqual(isMerged ? ["one", "done"] : ["one", "two", "really done"]);
    }
  });

  it("cannot be steered when none runs", async () => {
    const { turns, lines } = open();
    await expect(turns.steer("too early")).rejects.toMatchObject({ code: "no_turn" });
    const turn = all(turns.run("1"));
    await expect.poll(() => lines).toHaveLength(1);
    turns.push(result("done"));
    await turn;
    await expect(turns.steer("too late")).rejects.toMatchObject({ code: "no_turn" });
  });
});
