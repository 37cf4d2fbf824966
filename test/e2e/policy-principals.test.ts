import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { hashApiKey } from "../../src/auth/api-key.ts";
import { type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { startGateway } from "../support/gateway.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { bearer, startIssuer, type TestIssuer } from "../support/tokens.ts";

const key = "hgk_of-ann";
const robots = { apiKeys: { keys: { ann: { hash: hashApiKey(key), scopes: ["admin"], labels: { team: "red" } } } } };
const guide = readFileSync(resolve(import.meta.dirname, "../../docs/guides/policy.md"), "utf8");

/** Ways to be ann: the authenticator, what she sends, and the id that this gives her. */
interface Identity {
  readonly authenticators: Readonly<Record<string, unknown>>;
  readonly credential: (audience: string) => Promise<string> | string;
  readonly id: string;
}

const identities: readonly (readonly [form: string, identity: (issuer: TestIssuer) => Identity])[] = [
  ["a key", () => ({ authenticators: { robots }, credential: () => key, id: "key:robots/ann" })],
  [
    "a token",
    (issuer) => ({
      authenticators: { people: { jwt: { issuer: issuer.url } } },
      credential: (audience) => issuer.token({ audience, subject: "ann", scope: "admin" }),
      id: `${issuer.url}#ann`,
    }),
  ],
];

function writeConfig(folder: Folder, authenticators: unknown, rules: readonly unknown[]): string {
  const config = {
    listen: { port: 0 },
    record: { file: folder.at("traffic.sqlite") },
    auth: { authenticators },
    upstream: { demo: true },
    policy: { rules },
  };
  return folder.write("headgate.json", JSON.stringify(config));
}

describe.each(identities)("a caller with %s", (_form, identify) => {
  it("is the same for rules, policy tests and traffic, by full id and by short name", async () => {
    using folder = temporaryFolder();
    await using issuer = await startIssuer();
    const { authenticators, credential, id } = identify(issuer);
    const file = writeConfig(folder, authenticators, [
      { id: "by-id", allow: `mcp.tool == "echo" && principal.id == "${id}" && "admin" in principal.scopes` },
      { id: "by-name", allow: 'mcp.tool == "add" && principal.name == "ann" && principal.claims.sub == "ann"' },
      { id: "handshake", allow: 'mcp.tool == ""' },
    ]);
    expect((await headgate("check", file)).output).not.toContain("(warning)");
    await using gateway = await startGateway(["run", "--config", file]);
    const session = await openSession(gateway.url, "2025-11-25", bearer(await credential(gateway.url)));
    for (const tool of ["echo", "add"]) await session.post(toolCall(tool, tool));
    await gateway.process.stop();
    const store = ["-s", folder.at("traffic.sqlite")];
    for (const who of ["ann", JSON.stringify(id)]) {
      const { output } = await headgate(
        "traffic",
        `principal:${who}`,
        "method:tools/call",
        "--oldest",
        "--json",
        ...store,
      );
      const rows = output.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as object] : []));
      expect(rows).toMatchObject([
        { principal: id, rule: "by-id" },
        { principal: id, rule: "by-name" },
      ]);
    }
    const caseOf = (principal: object, tool: string, rule: string): object => ({
      name: `${tool} ${JSON.stringify(principal)}`,
      principal: id.startsWith("key:") ? principal : { ...principal, scopes: ["admin"] },
      message: { method: "tools/call", params: { name: tool } },
      expect: { decision: "allow", rule },
    });
    const cases = [{ id }, { name: "ann" }].flatMap((who) => [
      caseOf(who, "echo", "by-id"),
      caseOf(who, "add", "by-name"),
    ]);
    const tests = folder.write("cases.json", JSON.stringify({ config: "headgate.json", cases }));
    const tested = await headgate("policy", "test", tests);
    expect([tested.exitCode, tested.output]).toEqual([0, expect.stringMatching(/4 passed, 0 failed$/u)]);
    expect(tested.output).not.toContain("warning");
  });
});

describe("rules and cases about callers that cannot exist", () => {
  it("are warned of by check and by policy test", async () => {
    using folder = temporaryFolder();
    const file = writeConfig(folder, { robots }, [{ deny: 'principal.id == "ann"' }, { allow: "true" }]);
    const warning =
      /policy\.rules\[0\]\.deny: `principal\.id` is never "ann".*did you mean "key:robots\/ann".*\(warning\)/u;
    const checked = await headgate("check", file);
    expect([checked.exitCode, checked.output]).toEqual([0, expect.stringMatching(warning)]);
    const message = { method: "tools/call", params: { name: "fail" } };
    const cases = [
      { name: "never", principal: { id: "ann" }, message, expect: "deny" },
      { name: "real", principal: { name: "ann" }, message, expect: "allow" },
    ];
    const tested = await headgate(
      "policy",
      "test",
      folder.write("cases.json", JSON.stringify({ config: "headgate.json", cases })),
    );
    expect(tested.exitCode).toBe(0);
    expect(tested.output).toMatch(warning);
    expect(tested.output).toMatch(
      /cases\[0\]\.principal: no caller of route `default` has the id `ann`; ids there are `key:robots\/NAME` \(warning\)/u,
    );
    expect(tested.output).not.toContain("cases[1].principal");
  });

  it("are refused in a test where a short name could mean several callers", async () => {
    using folder = temporaryFolder();
    const authenticators = { robots, people: { jwt: { issuer: "https://issuer.example" } } };
    writeConfig(folder, authenticators, [{ allow: 'principal.name == "ann"' }]);
    const cases = [{ name: "who", principal: { name: "ann" }, message: { method: "ping" }, expect: "allow" }];
    const { exitCode, output } = await headgate(
      "policy",
      "test",
      folder.write("cases.json", JSON.stringify({ config: "headgate.json", cases })),
    );
    expect(exitCode).toBe(2);
    expect(output).toContain("several authenticators may give the same `principal.name`");
    expect(output).toContain(
      'the principal name `ann` is ambiguous; write the id: "key:robots/ann" or "https://issuer.example#ann"',
    );
  });
});

describe("the guide", () => {
  it("has rules about callers and a test of them that passes without a warning", async () => {
    using folder = temporaryFolder();
    const blocks = [...guide.matchAll(/^```(?:yaml|yml)\n# (?<name>[\w.]+)\n(?<code>[^]*?)^```$/gmu)];
    const files = blocks.map(({ groups }) => folder.write(groups?.["name"] ?? "", groups?.["code"] ?? ""));
    const { exitCode, output } = await headgate(
      "policy",
      "test",
      files.find((name) => name.endsWith(".test.yaml")) ?? "",
    );
    expect([exitCode, output]).toEqual([0, expect.stringMatching(/^(?:ok .*\n)+\d passed, 0 failed$/u)]);
  });
});
