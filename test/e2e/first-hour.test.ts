import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { createCertificate } from "../support/certificate.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { textResult } from "../support/legacy-session.ts";
import { startNginx } from "../support/nginx.ts";

const guide = readFileSync(resolve(import.meta.dirname, "../../docs/guides/first-hour.md"), "utf8");

/** The block of the guide in a language. */
function block(language: string, containing = ""): string {
  const blocks = [...guide.matchAll(new RegExp(`^\`\`\`${language}\n(?<code>[^]*?)^\`\`\`$`, "gmu"))];
  const found = blocks.map(({ groups }) => groups?.["code"] ?? "").find((code) => code.includes(containing));
  if (found === undefined) throw new Error(`the guide has no ${language} block with ${containing}`);
  return found;
}

/** Replaces a text that must be there: a guide that changes must not leave its test behind. */
function exchangeText(text: string, replacements: Readonly<Record<string, string>>): string {
  return Object.entries(replacements).reduce((result, [old, next]) => {
    if (!result.includes(old)) throw new Error(`the guide no longer has ${old}`);
    return result.replaceAll(old, () => next);
  }, text);
}

/** A server with tools of the names that the guide's servers have. */
async function serverWith(...tools: readonly string[]) {
  const listed = tools.map((name) => ({
    name,
    inputSchema: { type: "object", properties: { a: { type: "number" } } },
  }));
  return legacyUpstream((call, { id, method, params }) =>
    method === "tools/list"
      ? call.reply({ jsonrpc: "2.0", id, result: { tools: listed } })
      : call.reply(textResult(id, `${String(params?.["name"])} was called`)),
  );
}

describe("the guide to the first hour", () => {
  it("leads to two servers with keys and rules behind nginx, and to the reasons for what happened", async () => {
    using folder = testFolder();
    using certificate = createCertificate("127.0.0.1");
    await using notes = await serverWith("read_text_file", "write_file", "list_directory");
    await using everything = await serverWith("get-sum", "echo");
    const { stdout } = await headgate(["key"]);
    const { key = "", hash = "" } = /key:\s+(?<key>\S+)\nhash:\s+(?<hash>\S+)/u.exec(stdout)?.groups ?? {};
    const port = await freePort();
    const nginx = exchangeText(block("nginx"), {
      "listen 443 ssl;": "",
      "mcp.example.com;": "127.0.0.1;",
      "/etc/ssl/mcp.example.com.pem": certificate.certFile,
      "/etc/ssl/mcp.example.com.key": certificate.keyFile,
      "127.0.0.1:8484": `127.0.0.1:${port}`,
    });
    await using proxy = await startNginx(nginx.replace(/^server \{/u, "").replace(/\}\s*$/u, ""), { isTls: true });
    const added = block("diff").replaceAll(/^.(?=.*$)/gmu, "");
    const config = exchangeText(block("yaml", "# headgate.yaml"), {
      "listen:\n  port: 8484\n": exchangeText(added, {
        "8484": String(port),
        "0.0.0.0": "127.0.0.1",
        "https://mcp.example.com": proxy.origin,
        "172.16.0.0/12": "127.0.0.0/8",
      }),
      "record: true": `record: { file: ${folder.path}/traffic.sqlite }\nadmin: false`,
      '{ command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", notes] }': `{ url: "${notes.url}" }`,
      '{ command: npx, args: [-y, "@modelcontextprotocol/server-everything"] }': `{ url: "${everything.url}" }`,
      "sha256:Ez9LnLJgrzWDzZYzvgCE9jqSWhNRgv6KTs8pp0svbxo": hash,
    });
    const file = folder.write("headgate.yaml", config);
    await using gateway = await startGateway(["run"], { cwd: folder.path });
    const trusting = { env: { NODE_EXTRA_CA_CERTS: certificate.certFile }, cwd: folder.path };
    const asAnn = ["-H", `Authorization: Bearer ${key}`];
    const [sums, files] = [`${proxy.origin}/everything/mcp`, `${proxy.origin}/notes/mcp`];
    const [nobody, listed, small, large] = await Promise.all([
      headgate(["tools", files], trusting),
      headgate(["tools", files, ...asAnn], trusting),
      headgate(["call", sums, "get-sum", "a=2", ...asAnn], trusting),
      headgate(["call", sums, "get-sum", "a=200", ...asAnn], trusting),
    ]);
    expect([nobody.exitCode, nobody.stderr]).toEqual([3, expect.stringContaining("requires authorization")]);
    expect(listed.stdout).toMatch(/2 tools\n\nread_text_file .*\n[^]*\nlist_directory/u);
    expect(listed.stdout).not.toContain("write_file");
    expect(small.stdout).toContain("get-sum was called");
    expect([large.exitCode, large.stderr]).toEqual([5, expect.stringContaining("No rule of this gateway's policy")]);
    await gateway.process.stop();

    const [traffic, explained] = await Promise.all([
      headgate(["traffic", "tool:*", "--config", file]),
      headgate(
        ["policy", "explain", "tools/call", '{"name":"get-sum","arguments":{"a":150,"b":2}}'].concat([
          "--route",
          "everything",
          "--principal",
          "ann",
        ]),
        { cwd: folder.path },
      ),
    ]);
    expect(traffic.stdout).toMatch(/everything\s+ann headgate\s+→ tools\/call get-sum\s+refused .* deny\n/u);
    expect(traffic.stdout).toMatch(/→ tools\/call get-sum\s+ok .* allow small-sums\n/u);
    expect(explained.stdout).toBe(block("text", "request tools/call"));
  });
});
