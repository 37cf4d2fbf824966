import { describe, expect, it } from "vitest";

import { policy } from "./policy.ts";

const config = `upstream: { demo: true }
policy:
  authzen:
    url: https://pdp.example.com
    mappings:
      pay: { evaluation: { action: { name: pay }, resource: { type: account, id: $params.arguments.from } } }
`;

async function explain(...args: string[]) {
  let [out, err] = ["", ""];
  const exitCode = await policy(["explain", ...args, "--config", "gate.yaml"], {
    out: (text) => (out += text),
    err: (text) => (err += text),
    env: {},
    readFile: async () => Promise.resolve(config),
  });
  return { exitCode, out, err };
}

const ann = '{"id":"x#ann","claims":{"sub":"ann","aud":"https://mcp.example.com"}}';

describe("headgate policy explain with an AuthZEN decision point", () => {
  it("shows what would be asked, and by which mapping", async () => {
    const { exitCode, out } = await explain(
      "tools/call",
      '{"name":"pay","arguments":{"from":"a1"}}',
      "--principal",
      ann,
    );
    expect([exitCode, out]).toEqual([
      0,
      expect.stringContaining("https://pdp.example.com would be asked, with the configured mapping:"),
    ]);
    expect(out).toContain('"action":{"name":"pay"},"resource":{"type":"account","id":"a1"}');
    const other = await explain("tools/call", '{"name":"add"}', "--principal", ann);
    expect(other.out).toContain('"resource":{"type":"tool","id":"add","properties":{"server":"default"}}');
    expect(other.out).toContain("a mapping declared by the tool would take precedence");
  });

  it("says what passes or is refused without asking", async () => {
    expect((await explain("ping")).out).toContain("allow: not sent to the decision point");
    expect((await explain("tools/call", '{"name":"pay"}', "--principal", ann)).out).toContain(
      "deny (invalid, mapping_error)",
    );
    expect((await explain("tools/list", "--answer", '{"result":{}}')).out).toContain(
      "allow: the decision about the request covers its response",
    );
  });
});
