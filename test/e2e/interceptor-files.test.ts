import { readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

import { startConfigured, temporaryFolder } from "../support/configured-gateway.ts";
import { startGateway } from "../support/gateway.ts";
import { handshake, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream, sentMessage } from "../support/legacy-upstream.ts";
import { startProcess } from "../support/process.ts";
import { eventually } from "../support/eventually.ts";

const root = resolve(import.meta.dirname, "../..");
const bin = join(root, "bin/headgate.mjs");

/** Answers every call with the name of the tool and an address. */
const echo: Answering = (call, { id, params }) =>
  id === undefined ? call.replyRaw(202) : call.reply(textResult(id, `${String(params?.["name"])} of ann@example.com`));

/** The files that the guide shows, by name. */
function guideFiles(): Readonly<Record<string, string>> {
  const guide = readFileSync(join(root, "docs/guides/interceptors.md"), "utf8");
  const blocks = [...guide.matchAll(/^```ts\n\/\/ (?<name>\S+)\n(?<code>[^]*?)^```$/gmu)];
  return Object.fromEntries(blocks.map(({ groups }) => [groups?.["name"] ?? "", groups?.["code"] ?? ""]));
}

/** An interceptor that answers every call with a text. */
const answering = (text: string): string =>
  `import { mock, proceed } from "headgate";
   import { said } from "./said.ts";
   const text: string = ${JSON.stringify(text)};
   export default { methods: ["tools/call"], phase: "request", onMessage: () => mock({ result: { content: [{ type: "text", text: text + said }] } }) };`;

async function textOf(session: Awaited<ReturnType<typeof openSession>>, tool = "t"): Promise<string> {
  const { json } = await session.post(toolCall(1, tool));
  return JSON.stringify(json);
}

describe("interceptors in files", () => {
  it("[SC-063] do what the guide's examples say, with --intercept", async () => {
    const files = guideFiles();
    expect(Object.keys(files).toSorted()).toEqual(["answer.ts", "block.ts", "redact.ts"]);
    await using upstream = await legacyUpstream(echo);
    using folder = temporaryFolder(files);
    const args = Object.keys(files).flatMap((name) => ["--intercept", join(folder.path, name)]);
    await using gateway = await startGateway(["run", "--port", "0", "--upstream", upstream.url, ...args]);
    const session = await openSession(gateway.url);
    expect(await textOf(session, "book_berth")).toContain("booking is not allowed here");
    expect(await textOf(session, "who")).toContain("who of [address]");
    expect(await textOf(session, "weather")).toContain("sunny, as always in tests");
    expect(upstream.received("tools/call")).toHaveLength(1);
  });

  it("that --intercept cannot load are named by the option", async () => {
    const start = startGateway(["run", "--port", "0", "--intercept", "no-such.ts"]);
    await expect(start).rejects.toThrow(/headgate: --intercept no-such\.ts: \S+no-such\.ts: no such file/u);
  });

  it("[SC-063] see the routes and messages that the configuration gives them", async () => {
    await using upstream = await legacyUpstream(echo);
    const tag = (name: string): string =>
      `import { modify } from "headgate";
       export default { methods: ["tools/call"], phase: "request", onMessage: () => modify({ set: { "/params/_meta": { ${name}: true } } }) };`;
    await using gateway = await startConfigured(
      {
        interceptors: [{ file: "./every.ts", match: "tool:del_* | request:secret" }],
        routes: {
          one: { upstream: { url: upstream.url }, interceptors: [{ file: "own.ts", match: "tool:own*" }] },
          two: { upstream: { url: upstream.url } },
        },
      },
      { "every.ts": tag("every"), "own.ts": tag("own") },
    );
    const one = await openSession(`${gateway.origin}/one/mcp`);
    const two = await openSession(`${gateway.origin}/two/mcp`);
    const metaOf = async (session: typeof one, name: string, args: object = {}): Promise<unknown> => {
      await session.post(toolCall(1, name, { arguments: args }));
      const [last] = upstream.received("tools/call").slice(-1);
      return last === undefined ? "nothing came" : sentMessage(last).params?.["_meta"];
    };
    expect(await metaOf(one, "own")).toEqual({ own: true });
    expect(await metaOf(two, "own")).toBeUndefined();
    expect(await metaOf(two, "del_x")).toEqual({ every: true });
    expect(await metaOf(one, "other", { a: "secret" })).toEqual({ every: true });
    expect(await metaOf(one, "other")).toBeUndefined();
  });

  it.each([
    ["block", "interceptor boom failed"],
    ["continue", "of ann@example.com"],
  ])("[SC-065] that throw are logged with name and stack, and `onFailure: %s` decides", async (onFailure, expected) => {
    await using upstream = await legacyUpstream(echo);
    await using gateway = await startConfigured(
      {
        record: false,
        log: { level: "warn", format: "json" },
        upstream: { url: upstream.url },
        interceptors: [{ file: "boom.ts", onFailure }],
      },
      { "boom.ts": 'export default function decide(): never {\n  throw new RangeError("out of range");\n}\n' },
    );
    const hello = onFailure === "continue" ? await openSession(gateway.url) : undefined;
    const answer =
      hello === undefined
        ? await openSession(gateway.url).catch((error: unknown) => String(error))
        : await textOf(hello);
    expect(answer).toContain(expected);
    const [line] = await gateway.process.waitForLine(/.*interceptor failed.*/u);
    expect(line).toMatch(/"interceptor":"boom"/u);
    expect(line).toMatch(/RangeError: out of range\\n\s+at .*boom\.ts/u);
  });

  it("are loaded again when they or what they import change; a broken one changes nothing", async () => {
    await using upstream = await legacyUpstream(echo);
    await using gateway = await startConfigured(
      { upstream: { url: upstream.url }, interceptors: [{ file: "mine.ts" }] },
      { "mine.ts": answering("first"), "said.ts": "export const said = ' said';" },
    );
    const session = await openSession(gateway.url);
    const becomes = async (text: string): Promise<void> => {
      await eventually(async () => expect(await textOf(session)).toContain(text));
    };
    await becomes("first said");
    gateway.folder.write("mine.ts", answering("second"));
    await becomes("second said");
    gateway.folder.write("said.ts", "export const said = ' told';");
    await becomes("second told");
    gateway.folder.write("mine.ts", "export default { broken");
    await gateway.process.waitForLine(/interceptors\[0\]\.file: .*mine\.ts.*keeping the old one/u);
    await becomes("second told");
    gateway.folder.write("mine.ts", answering("third"));
    await becomes("third told");
    // Tools such as Git replace a file by removing it first.
    rmSync(join(gateway.folder.path, "said.ts"));
    await gateway.process.waitForLine(/interceptors\[0\]\.file: .*said\.ts.*keeping the old one/u);
    gateway.folder.write("said.ts", "export const said = ' back';");
    await becomes("third back");
  });

  it.each([
    ["ts", "import"],
    ["mts", "import"],
    ["mjs", "import"],
    ["cjs", "require"],
    ["cts", "require"],
  ])("may be .%s files that %s the package and other files, and are loaded again with those", async (ext, how) => {
    const takes = (name: string, from: string): string =>
      how === "import" ? `import { ${name} } from "${from}";` : `const { ${name} } = require("${from}");`;
    const gives = (name: string, value: string): string =>
      how === "import"
        ? `export ${name === "default" ? "default" : `const ${name} =`} ${value};`
        : `${name === "default" ? "module.exports" : `exports.${name}`} = ${value};`;
    const own = `{ methods: ["tools/call"], phase: "request", onMessage: () => block({ reason: said + typeof memberValue }) }`;
    const mine = [
      takes("block", "headgate"),
      takes("memberValue", "headgate/protocol"),
      takes("said", `./said.${ext}`),
      gives("default", own),
    ];
    await using upstream = await legacyUpstream(echo);
    await using gateway = await startConfigured(
      { upstream: { url: upstream.url }, interceptors: [{ file: `mine.${ext}` }] },
      { [`mine.${ext}`]: mine.join("\n"), [`said.${ext}`]: gives("said", '"first "') },
    );
    const session = await openSession(gateway.url);
    expect(await textOf(session)).toContain("first function");
    gateway.folder.write(`said.${ext}`, gives("said", '"second "'));
    await eventually(async () => expect(await textOf(session)).toContain("second function"));
  });

  it.each([
    ["throw", "() => { throw new Error('out'); }", /"reason":"threw".*Error: out/u],
    ["reject", "async () => { throw new Error('out'); }", /"reason":"threw".*Error: out/u],
    ["never decide", "() => new Promise(() => {})", /"reason":"did not decide within 300 ms"/u],
    ["return nothing", "() => undefined", /"reason":"returned no action"/u],
    ["return something else", "() => 5", /"reason":"returned no action"/u],
    ["block without a reason", "() => ({ type: 'block' })", /"reason":"returned `block` without a reason/u],
  ])("that %s let nothing pass, and the log says why", async (_what, onMessage, expected) => {
    await using upstream = await legacyUpstream(echo);
    await using gateway = await startConfigured(
      { upstream: { url: upstream.url }, interceptors: [{ file: "mine.js", timeout: "300ms" }] },
      { "mine.js": `export default { methods: ["tools/call"], phase: "request", onMessage: ${onMessage} };` },
    );
    const session = await openSession(gateway.url);
    expect(await textOf(session)).toContain("interceptor mine failed");
    expect(upstream.received("tools/call")).toEqual([]);
    const [line] = await gateway.process.waitForLine(/.*interceptor failed.*/u);
    expect(line).toMatch(expected);
  });

  it("are loaded again by `headgate stdio` as well, whose server stays until the next start", async () => {
    using folder = temporaryFolder({ "mine.ts": answering("first"), "said.ts": "export const said = ' said';" });
    const configure = (upstream: unknown): string =>
      folder.write("headgate.json", JSON.stringify({ record: false, log: { level: "info" }, upstream }));
    const file = configure({ demo: true });
    const args = ["stdio", "--config", file, "--intercept", join(folder.path, "mine.ts")];
    await using gateway = await startProcess([process.execPath, bin, ...args]);
    const say = (message: unknown): void => {
      gateway.stdin.write(`${JSON.stringify(message)}\n`);
    };
    say(handshake("2025-11-25"));
    await gateway.waitForLine(/"id":"hello"/u);
    say({ jsonrpc: "2.0", method: "notifications/initialized" });
    say(toolCall(1, "add"));
    await gateway.waitForLine(/first said/u);
    folder.write("mine.ts", answering("second"));
    await gateway.waitForLine(/interceptors loaded/u);
    say(toolCall(2, "add"));
    await gateway.waitForLine(/second said/u);
    configure({ command: "no-such-program" });
    await gateway.waitForLine(/routes\.default\.upstream\.command.*changes need a restart/u);
    say({ jsonrpc: "2.0", id: 3, method: "tools/list" });
    await gateway.waitForLine(/"name":"count_slowly".*"id":3\b/u);
    gateway.stdin.end();
    expect(await gateway.exited).toMatchObject({ code: 0 });
  });

  it.each([
    ["missing", [{ file: "none.ts" }], /interceptors\[0\]\.file: .*none\.ts: no such file/u],
    ["not TypeScript", [{ file: "broken.ts" }], /interceptors\[0\]\.file: .*broken\.ts: SyntaxError/u],
    ["TypeScript that is more than types", [{ file: "enum.ts" }], /enum is not supported.*compile it to JavaScript/u],
    ["throwing", [{ file: "throws.ts" }], /interceptors\[0\]\.file: .*: Error: not today \(.*throws\.ts:1\)/u],
    ["without an interceptor", [{ file: "empty.ts" }], /the default export must be/u],
    ["with options that are wrong", [{ file: "options.ts" }], /timeout of interceptor options/u],
    [
      "with a filter that is wrong",
      [{ file: "fine.ts", match: "tool:" }],
      /interceptors\[0\]\.match: .*needs a value/u,
    ],
    ["with a filter known later", [{ file: "fine.ts", match: "dur:>1s" }], /`dur` is not known/u],
  ])("that are %s are a problem of `headgate check`", async (_what, interceptors, expected) => {
    using folder = temporaryFolder({
      "broken.ts": "export default { onMessage( };",
      "enum.ts": "enum Kind { One } export default () => Kind.One;",
      "throws.ts": 'throw new Error("not today");',
      "empty.ts": "export const onMessage = () => {};",
      "options.ts": "export default { timeoutMs: -1, onMessage: () => {} };",
      "fine.ts": 'import { proceed } from "headgate"; export default () => proceed();',
    });
    const check = async (list: unknown): Promise<{ readonly code: number | null; readonly output: string }> => {
      const file = folder.write("headgate.json", JSON.stringify({ upstream: { demo: true }, interceptors: list }));
      await using child = await startProcess([process.execPath, bin, "check", file]);
      const { code } = await child.exited;
      return { code, output: child.output() };
    };
    const { code, output } = await check(interceptors);
    expect(output).toMatch(expected);
    expect(code).toBe(2);
    expect(await check([{ file: "fine.ts", match: "tool:x ~q" }])).toMatchObject({ code: 0 });
  });
});
