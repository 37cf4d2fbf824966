import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";

import { startGateway } from "../support/gateway.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";

const root = resolve(import.meta.dirname, "../..");

/** The bank of the documents. */
async function startBank() {
  const tools = [
    tool("read_balance", "The balance of an account.", { account: "string" }),
    tool("transfer", "Moves money between accounts.", { amount: "number", currency: "string" }),
    tool("delete_account", "Closes an account.", { account: "string" }),
    tool("send_letter", "Writes to a customer.", { text: "string" }),
  ];
  return legacyUpstream((call, { id, method, params }) => {
    if (method === "tools/list") return call.reply({ jsonrpc: "2.0", id, result: { tools } });
    if (method !== "tools/call") return call.replyRaw(202);
    return call.reply({
      jsonrpc: "2.0",
      id,
      result: { content: [{ type: "text", text: `did ${String(params?.["name"])}` }] },
    });
  });
}

function tool(name: string, description: string, fields: Readonly<Record<string, string>>) {
  const properties = Object.fromEntries(Object.entries(fields).map(([key, type]) => [key, { type }]));
  return { name, description, inputSchema: { type: "object", properties, required: Object.keys(fields) } };
}

/** The rules of the first YAML example of a page that has some. */
function rulesOf(page: string): unknown {
  const text = readFileSync(join(root, page), "utf8");
  for (const [, block = ""] of text.matchAll(/^```yaml\n([\s\S]*?)^```$/gmu)) {
    const { policy } = parse(block) as { readonly policy?: { readonly rules?: unknown } };
    if (policy?.rules !== undefined) return policy.rules;
  }
  throw new Error(`no rules in ${page}`);
}

async function openBank(rules: unknown) {
  const stack = new AsyncDisposableStack();
  const bank = stack.use(await startBank());
  const folder = stack.use(testFolder());
  const config = { upstream: { url: bank.url }, admin: false, policy: { rules } };
  const file = folder.write("headgate.yaml", stringify(config));
  const gateway = stack.use(await startGateway(["run", "--config", file, "--port", "0"]));
  return {
    listed: async (): Promise<readonly string[]> => {
      const { stdout } = await headgate(["tools", gateway.url, "--json"]);
      return (JSON.parse(stdout) as { tools: readonly { name: string }[] }).tools.map(({ name }) => name);
    },
    call: (...args: readonly string[]) => headgate(["call", ...args, "--url", gateway.url]),
    /** What a user sees who types these commands, one after the other. */
    session: async (commands: readonly string[]): Promise<string> => {
      const shown: string[] = [];
      for (const command of commands) {
        const [verb = "", ...args] = command.split(" ");
        const { stdout, stderr } = await headgate([verb, ...args, ...(verb === "call" ? ["--url"] : []), gateway.url]);
        shown.push(`$ headgate ${command}\n${stdout}${stderr}`);
      }
      return shown.join("").replaceAll(gateway.url, "http://127.0.0.1:8484/mcp").replaceAll("fake 1.0.0", "bank 1.0.0");
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("the rules of the README", () => {
  it("list what they can allow, and refuse the rest", async () => {
    await using bank = await openBank(rulesOf("README.md"));
    expect(await bank.listed()).toEqual(["read_balance", "transfer"]);
    expect(await bank.call("read_balance", "account=1")).toMatchObject({ exitCode: 0, stdout: "did read_balance\n" });
    expect(await bank.call("transfer", "amount=100", "currency=EUR")).toMatchObject({ exitCode: 0 });
    const tooMuch = await bank.call("transfer", "amount=101", "currency=EUR");
    expect([tooMuch.exitCode, tooMuch.stderr]).toEqual([
      5,
      expect.stringContaining("No rule of this gateway's policy"),
    ]);
    for (const [name, reason] of [
      ["delete_account", "Accounts are closed at the counter."],
      ["send_letter", "No rule of this gateway's policy allows this."],
    ]) {
      const refused = await bank.call(name ?? "", "--args", "{}");
      expect([refused.exitCode, refused.stderr]).toEqual([5, expect.stringContaining(reason ?? "")]);
    }
  });
});

describe("the rules of the policy guide", () => {
  it("show what the guide prints", async () => {
    await using bank = await openBank(rulesOf("docs/guides/policy.md"));
    const guide = readFileSync(join(root, "docs/guides/policy.md"), "utf8");
    const sample = /^```text\n(\$ headgate tools\n[\s\S]*?)^```$/mu.exec(guide)?.[1] ?? "";
    const commands = [...sample.matchAll(/^\$ headgate (.*)$/gmu)].map(([, command = ""]) => command);
    expect(commands.length).toBeGreaterThan(1);
    expect(await bank.session(commands)).toBe(sample);
  });

  it("hide a tool from lists and callers if they say so", async () => {
    const rules = [{ deny: 'mcp.tool == "delete_account"', hide: true }, { allow: 'mcp.tool != ""' }];
    await using bank = await openBank(rules);
    expect(await bank.listed()).toEqual(["read_balance", "transfer", "send_letter"]);
    const { exitCode, stderr } = await bank.call("delete_account", "--args", "{}");
    expect([exitCode, stderr]).toEqual([5, expect.stringContaining("delete_account")]);
    expect(stderr).not.toContain("policy");
  });
});
