import type { ElicitRequestFormParams } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";

import { UsageError } from "../define-command.ts";
import { createAnswerer, parseAnswer, type ElicitationAnswer } from "./elicitation.ts";
import { eventually } from "../../../test/support/eventually.ts";

type Fields = ElicitRequestFormParams["requestedSchema"]["properties"];

/** Asks one question of a person who types these lines and then ends the input. */
async function ask(properties: Fields, required: string[], lines: readonly string[]) {
  const typed = [...lines];
  let shown = "";
  const answer = createAnswerer({
    given: [],
    prompt: {
      ask: (question) => {
        shown += `${question}|`;
        return Promise.resolve(typed.shift());
      },
      [Symbol.dispose]: () => {},
    },
    err: (text) => (shown += text),
  });
  const result = await answer({
    message: "Well?",
    requestedSchema: { type: "object", properties, required },
  });
  return { result, shown, left: typed };
}

describe("a question of a tool, put to a person", () => {
  it("is asked field by field, with choices and defaults in sight", async () => {
    const { result, shown } = await ask(
      {
        berth: { type: "string", title: "Berth", enum: ["A1", "B2"] },
        nights: { type: "integer", description: "how long", default: 1 },
        power: { type: "boolean", default: true },
        extras: { type: "array", items: { type: "string", enum: ["water", "crane"] } },
        note: { type: "string" },
      },
      ["berth"],
      ["B2", "3", "no", "water, crane", "", ""],
    );
    expect(result).toEqual({
      action: "accept",
      content: { berth: "B2", nights: 3, power: false, extras: ["water", "crane"] },
    });
    expect(shown).toBe(`the tool asks: Well?
  (Enter accepts the default or skips a field, Ctrl+D cancels)
  Berth (A1, B2): |  nights, how long [1]: |  power (yes, no) [true]: |  extras (water, crane): |  note: |  Send this? [Y/n] |`);
  });

  it("takes defaults for empty lines", async () => {
    const { result } = await ask(
      { nights: { type: "integer", default: 2 }, power: { type: "boolean", default: false } },
      ["nights"],
      ["", "", "y"],
    );
    expect(result).toEqual({ action: "accept", content: { nights: 2, power: false } });
  });

  it("is asked again until the answer fits", async () => {
    const { result, shown } = await ask(
      {
        berth: { type: "string", enum: ["A1"] },
        nights: { type: "integer" },
        kinds: { type: "array", items: { type: "string", enum: ["x"] } },
      },
      ["berth", "nights", "kinds"],
      ["", "Z9", "A1", "many", "4", "x, y", "x", ""],
    );
    expect(result).toEqual({ action: "accept", content: { berth: "A1", nights: 4, kinds: ["x"] } });
    expect(shown).toContain("The value is required\n");
    expect(shown).toContain("The value must be one of A1\n");
    expect(shown).toContain("The value must be an integer, not `many`\n");
    expect(shown).toContain("The value must be one of x\n");
  });

  it.each<[string, Fields, readonly string[], string]>([
    ["no at the end", { name: { type: "string" } }, ["x", "n"], "decline"],
    ["the end of input in a field", { name: { type: "string" } }, [], "cancel"],
    ["the end of input at the end", { name: { type: "string" } }, ["x"], "cancel"],
    ["yes to a mere confirmation", {}, ["y"], "accept"],
    ["nothing to a mere confirmation", {}, [""], "decline"],
  ])("takes %s for what it is", async (_what, properties, lines, action) => {
    const { result } = await ask(properties, [], lines);
    expect(result.action).toBe(action);
  });

  it("cannot steer the terminal", async () => {
    const { shown } = await ask({ a: { type: "string", title: "\u001B]0;x\u0007" } }, [], []);
    expect(shown).not.toContain("\u001B");
  });

  it.each([
    ["y", "accept"],
    ["", "decline"],
    [undefined, "cancel"],
  ])("of a web page shows its address and takes %j", async (typed, action) => {
    let shown = "";
    const answer = createAnswerer({
      given: [{}],
      prompt: { ask: () => Promise.resolve(typed), [Symbol.dispose]: () => {} },
      err: (text) => (shown += text),
    });
    const url = "https://login.example.com/consent?state=1";
    expect(await answer({ mode: "url", message: "Please sign in.", url, elicitationId: "1" })).toEqual({
      action,
    });
    expect(shown).toContain(url);
  });

  it("waits for its turn while another is being answered", async () => {
    const questions: string[] = [];
    const pending: ((line: string) => void)[] = [];
    const answer = createAnswerer({
      given: [],
      prompt: { ask: () => new Promise((resolve) => pending.push(resolve)), [Symbol.dispose]: () => {} },
      err: (text) => questions.push(text),
    });
    const form = { requestedSchema: { type: "object" as const, properties: {} } };
    const first = answer({ message: "first?", ...form });
    const second = answer({ message: "second?", ...form });
    await eventually(() => expect(pending).toHaveLength(1));
    expect(questions).toEqual(["the tool asks: first?\n"]);
    pending.shift()?.("y");
    expect(await first).toEqual({ action: "accept", content: {} });
    await eventually(() => expect(pending).toHaveLength(1));
    pending.shift()?.("n");
    expect(await second).toEqual({ action: "decline" });
  });
});

describe("a question of a tool, with nobody there", () => {
  it("gets the answers given in advance in their order, and is declined after that", async () => {
    const given: ElicitationAnswer[] = [{ berth: "A1" }, { nights: 2 }];
    const answer = createAnswerer({ given, prompt: undefined, err: () => {} });
    const question = { message: "?", requestedSchema: { type: "object" as const, properties: {} } };
    expect(await answer(question)).toEqual({ action: "accept", content: { berth: "A1" } });
    expect(await answer(question)).toEqual({ action: "accept", content: { nights: 2 } });
    expect(await answer(question)).toEqual({ action: "decline" });
    expect(await answer({ mode: "url", message: "?", url: "https://a.example", elicitationId: "1" })).toEqual({
      action: "decline",
    });
  });
});

describe("parseAnswer", () => {
  it("takes flat objects only", () => {
    const value = { text: "a", number: 1, flag: true, list: ["x"] };
    expect(parseAnswer(JSON.stringify(value))).toEqual(value);
    expect(() => parseAnswer('{"a":{"b":1}}')).toThrow(UsageError);
    expect(() => parseAnswer('{"a":[1]}')).toThrow(UsageError);
    expect(() => parseAnswer('{"a":null}')).toThrow(UsageError);
    expect(() => parseAnswer("[]")).toThrow(UsageError);
  });
});
