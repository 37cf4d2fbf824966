import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { runCommand, type CliRunOptions } from "../../../test/support/cli-io.ts";
import { serveDemo, type LoopbackServer } from "../../../test/support/demo-http.ts";
import { call } from "./call.ts";

let demo: LoopbackServer;
beforeAll(async () => {
  demo = await serveDemo();
});
afterAll(() => demo[Symbol.asyncDispose]());

describe.each(["/modern", "/legacy", "/sse"])("headgate call, of a server at %s", (path) => {
  const run = (args: readonly string[], options?: CliRunOptions) =>
    runCommand(call, [...args, "--url", `${demo.origin}${path}`], options);

  it("prints the texts and the structured content", async () => {
    expect(await run(["add", "a=2", "b=0.5"])).toEqual({
      exitCode: 0,
      out: '2 + 0.5 = 2.5\n{\n  "sum": 2.5\n}\n',
      err: "",
    });
  });

  it("prints the whole result as JSON", async () => {
    const { exitCode, out } = await run(["add", "--args", '{"a":1,"b":2}', "--json"]);
    expect(exitCode).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ structuredContent: { sum: 3 } });
  });

  it("shows progress and log messages apart from the result", async () => {
    const counted = await run(["count_slowly", "to=2", "delay_ms=5"]);
    expect(counted).toEqual({
      exitCode: 0,
      out: "Counted to 2.\n",
      err: "progress: 1/2 counted to 1\nprogress: 2/2 counted to 2\n",
    });
    const told = await run(["tell_story", "ship=Vega", "delay_ms=5"]);
    expect(told.err).toMatch(/^info: sentence 1 of 4 is ready\nprogress: 1\/4 In the grey of the morning the Vega /u);
  });

  it("answers a question with what was given in advance", async () => {
    const { exitCode, out, err } = await run(["book_berth", "ship=Vega", "--answer", '{"berth":"B2"}']);
    expect({ exitCode, out, err }).toEqual({
      exitCode: 0,
      out: "Berth B2 (Fish market) is booked for Vega, one night.\n",
      err: "the tool asks: Which berth shall Vega have?\n",
    });
  });

  it("puts a question to the person at the terminal", async () => {
    const { out, err } = await run(["book_berth", "ship=Vega"], { typed: ["C1", "7", ""] });
    expect(out).toBe("Berth C1 (Old pier) is booked for Vega, 7 nights.\n");
    expect(err).toContain("  Berth (A1, A2, B1, B2, C1):   Nights [1]:   Send this? [Y/n] ");
  });

  it("declines a question that nobody can answer", async () => {
    const { exitCode, out, err } = await run(["book_berth", "ship=Vega"]);
    expect({ exitCode, out }).toEqual({ exitCode: 0, out: "No berth was booked for Vega.\n" });
    expect(err).toContain("declined: there is no terminal to ask on");
  });

  it("tells an error of the tool on standard error and by its exit code", async () => {
    expect(await run(["fail", "reason=fog"])).toEqual({ exitCode: 5, out: "", err: "It failed: fog.\n" });
    const { exitCode, out } = await run(["fail", "--json"]);
    expect(exitCode).toBe(5);
    expect(JSON.parse(out)).toMatchObject({ isError: true });
  });

  it("names the tool that was probably meant", async () => {
    expect(await run(["addd", "a=1"])).toEqual({
      exitCode: 5,
      out: "",
      err: "headgate: unknown tool `addd`; did you mean `add`?\n",
    });
    expect((await run(["launch"])).err).toBe(
      "headgate: unknown tool `launch`; expected one of `add`, `count_slowly`, `tell_story`, `book_berth`, `fail`; use --args to call one that is not listed\n",
    );
  });

  it("checks single arguments by the schema, and sends --args as it is", async () => {
    expect(await run(["add", "a=one", "b=2"])).toEqual({
      exitCode: 2,
      out: "",
      err: "headgate: add: argument `a` must be a number, not `one`; see headgate tools\n",
    });
    expect(await run(["add", "a=1"])).toMatchObject({
      exitCode: 2,
      err: "headgate: add: missing `b`; see headgate tools\n",
    });
    const { exitCode, err } = await run(["add", "--args", '{"a":"one"}']);
    expect(exitCode).toBe(5);
    expect(err).toContain("Invalid arguments for tool add");
  });
});

describe("headgate call", () => {
  it("leaves a text as it is for a pipe, and makes it harmless for a terminal", async () => {
    const args = ["book_berth", "ship=\u001B[31mVega", "berth=A1", "--url", `${demo.origin}/modern`];
    expect((await runCommand(call, args)).out).toContain("\u001B[31mVega");
    expect((await runCommand(call, args, { outIsTerminal: true })).out).toContain(String.raw`\u001b[31mVega`);
  });

  it.each<[readonly string[], string]>([
    [[], "the name of a tool is missing"],
    [["add", "a"], "`a` is not an argument; expected KEY=VALUE or KEY:=JSON"],
    [["add", "a=1", "--args", "{}"], "KEY=VALUE and --args cannot be combined"],
    [["add", "--args", "[1]"], "--args takes a JSON object, not `[1]`"],
    [["add", "--answer", "A1"], "--answer takes a JSON object, not `A1`"],
    [["add", "--url", "ftp://host"], "`ftp://host` is not an http or https URL"],
    [["add", "--jsn"], "unknown option --jsn; did you mean --json?"],
  ])("refuses %j before it connects", async (args, problem) => {
    expect(await runCommand(call, args)).toEqual({
      exitCode: 2,
      out: "",
      err: `headgate call: ${problem}\nRun headgate call --help for usage.\n`,
    });
  });
});
