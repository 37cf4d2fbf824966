import { describe, expect, it } from "vitest";

import type { PolicyReport } from "../../src/gateway/evaluation/change-report.ts";
import { headgate, temporaryFolder, type Folder } from "../support/capture-file.ts";
import { captureOf, type ToldCall } from "../support/capture.ts";

const call = (name: string, args: unknown, more: Partial<ToldCall> = {}): ToldCall => ({
  method: "tools/call",
  params: { name, arguments: args },
  result: { content: [{ type: "text", text: "done" }] },
  ...more,
});

const tool = (name: string) => ({ name, inputSchema: { type: "object" } });

const denied: Partial<ToldCall> = {
  upstream: null,
  error: { code: 4030, message: "no", data: { origin: "gateway", code: "policy_denied" } },
  decision: { effect: "deny", rule: "no-pay" },
};

const recorded: readonly ToldCall[] = [
  {
    method: "tools/list",
    result: { tools: [tool("add")] },
    upstream: { result: { tools: [tool("add"), tool("pay"), tool("delete_file")] } },
    decision: { phase: "list", effect: "filter", hidden: 2, listed: 3 },
  },
  call("add", { a: 1 }),
  call("add", { a: 2 }, { context: { principal: "ann" } }),
  call("pay", { amount: 10 }, denied),
  call("pay", { amount: 5000 }, denied),
  call("login", { user: "ann", password: "[redacted:0123456789ab]" }),
];

async function reportOf(
  folder: Folder,
  policy: unknown,
  ...args: readonly string[]
): Promise<PolicyReport & { readonly exitCode: number }> {
  const config = folder.write("new.json", JSON.stringify({ upstream: { demo: true }, policy }));
  const file = folder.capture("a.ndjson", captureOf(recorded));
  const { exitCode, output } = await headgate("policy", "replay", file, "-c", config, "--json", ...args);
  return { ...(JSON.parse(output) as PolicyReport), exitCode };
}

const rest = { id: "rest", allow: "true" };

describe("headgate policy replay", () => {
  it("finds nothing to say about a policy that decides as before", async () => {
    using folder = temporaryFolder();
    const rules = [{ id: "no-pay", deny: 'mcp.tool == "pay"' }, rest];
    const report = await reportOf(folder, { rules, tools: { deny: ["delete_*"] } });
    expect(report).toMatchObject({ exchanges: 6, same: 6, groups: [], exitCode: 0 });
  });

  it("tells what is newly denied and newly allowed, by which rule and for whom", async () => {
    using folder = temporaryFolder();
    const rules = [
      { id: "no-sums", deny: 'mcp.tool == "add"', reason: "No sums today." },
      { id: "small", deny: 'mcp.tool == "pay" && mcp.arguments.amount > 100' },
      rest,
    ];
    const report = await reportOf(folder, { rules, tools: { deny: ["delete_*"] } });
    expect(report.exitCode).toBe(1);
    expect(report.counts).toMatchObject({ "newly-denied": 2, "newly-allowed": 1 });
    expect(report.groups.filter(({ kind }) => !kind.startsWith("list-"))).toMatchObject([
      {
        kind: "newly-denied",
        target: "add",
        rule: "no-sums",
        count: 2,
        principals: ["anonymous", "ann"],
        detail: ["the agent sees: No sums today."],
      },
      { kind: "newly-allowed", target: "pay", rule: "rest", detail: ["rule no-pay refused it then"] },
    ]);
  });

  it("tells which names lists would hide and show", async () => {
    using folder = temporaryFolder();
    const rules = [{ id: "no-pay", deny: 'mcp.tool == "pay"' }, rest];
    const report = await reportOf(folder, { rules, tools: { deny: ["add"] } });
    const lists = report.groups.filter(({ kind }) => kind.startsWith("list-"));
    expect(lists.map(({ kind, detail }) => [kind, detail])).toEqual([
      ["list-hidden", ["add"]],
      ["list-shown", ["delete_file"]],
    ]);
  });

  it("tells how arguments and answers would change", async () => {
    using folder = temporaryFolder();
    const report = await reportOf(folder, {
      rules: [
        { id: "no-pay", deny: 'mcp.tool == "pay"' },
        { id: "cap", allow: 'mcp.tool == "add"', set: { "/a": 0 } },
        rest,
      ],
      results: [{ id: "mute", apply: 'mcp.tool == "add"', redact: ["/content/0/text"] }],
      tools: { deny: ["delete_*"] },
    });
    const change = (kind: string) => report.groups.find((group) => group.kind === kind);
    expect(change("arguments-changed")).toMatchObject({ rule: "cap", detail: ["/arguments/a: 1 changed to 0"] });
    expect(change("answer-changed")?.detail).toEqual(['/content/0/text: "done" changed to "[redacted]"']);
  });

  it("calls undecidable what looks at something that the recording does not have", async () => {
    using folder = temporaryFolder();
    const rules = [
      { id: "no-pay", deny: 'mcp.tool == "pay"' },
      { id: "weak", deny: 'mcp.tool == "login" && mcp.arguments.password == "1234"' },
      { id: "adults", deny: 'mcp.tool == "add" && principal.id == "ann" && !("sums" in principal.scopes)' },
      rest,
    ];
    const policy = { rules, tools: { deny: ["delete_*"] } };
    const report = await reportOf(folder, policy);
    expect(report.exitCode).toBe(0);
    expect(report.groups.map(({ kind, target, detail }) => [kind, target, detail])).toEqual([
      ["undecidable", "add", ["principal.scopes is not in the recording"]],
      ["undecidable", "login", ["mcp.arguments.password is not in the recording"]],
    ]);
    expect((await reportOf(folder, policy, "--strict")).exitCode).toBe(1);
    const callers = folder.write("callers.yaml", "ann: { scopes: [sums] }\n");
    const known = await reportOf(folder, policy, "--principals", callers);
    expect(known.groups.map(({ target }) => target)).toEqual(["login"]);
  });

  it("prints the same for people, with examples to look at", async () => {
    using folder = temporaryFolder();
    const config = folder.write("new.yaml", "upstream: { demo: true }\npolicy: { tools: { deny: [add] } }\n");
    const file = folder.capture("a.ndjson", captureOf(recorded));
    const { exitCode, output } = await headgate("policy", "replay", file, "-c", config);
    expect(output).toContain("newly denied: 2");
    expect(output).toMatch(/2 × tools\/call add .*capture-1-x2, capture-1-x3/u);
    expect(exitCode).toBe(1);
  });

  it("says so where there is no capture, or its routes are not those of the configuration", async () => {
    using folder = temporaryFolder();
    const config = folder.write(
      "new.json",
      JSON.stringify({ routes: { a: { upstream: { demo: true } }, b: { upstream: { demo: true } } } }),
    );
    expect(await headgate("policy", "replay", folder.at("none"), "-c", config)).toMatchObject({
      exitCode: 2,
    });
    const file = folder.capture("a.ndjson", captureOf(recorded));
    const { output } = await headgate("policy", "replay", file, "-c", config);
    expect(output).toContain("skipped 6 exchanges of route default, which the configuration does not have");
    const named = await headgate("policy", "replay", file, "-c", config, "--route", "a");
    expect(named.output).toContain("newly allowed: 2");
  });
});
