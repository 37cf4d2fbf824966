import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { runCommand } from "../../../test/support/cli-io.ts";
import { listenOnLoopback, serveDemo, type LoopbackServer } from "../../../test/support/demo-http.ts";
import { formatTool, tools } from "./tools.ts";

const stdioDemo = [process.execPath, fileURLToPath(new URL("../../../test/fixtures/demo/stdio.ts", import.meta.url))];

let demo: LoopbackServer;
beforeAll(async () => {
  demo = await serveDemo({ token: "open sesame" });
});
afterAll(() => demo[Symbol.asyncDispose]());

const header = ["--header", "Authorization: Bearer open sesame"];

describe("headgate tools", () => {
  it.each([
    ["/modern", "2026-07-28"],
    ["/legacy", "2025-11-25"],
    ["/sse", "2025-11-25"],
  ])("lists what is at %s in revision %s", async (path, revision) => {
    const { exitCode, out, err } = await runCommand(tools, [`${demo.origin}${path}`, ...header]);
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
    expect(out).toMatch(
      `headgate-demo 1.0.0 at ${demo.origin}${path}, MCP ${revision}: 5 tools

add a=NUMBER b=NUMBER
  Adds two numbers and returns their sum, as text and as structured content.
    a  number  The first number
    b  number  The second number

count_slowly [to=INTEGER] [delay_ms=INTEGER]
`,
    );
    expect(out).toContain("\nbook_berth ship=STRING [berth=A1|A2|B1|B2|C1] [nights=INTEGER]\n");
  });

  it("looks at a server that is a command, and shows what it says on standard error", async () => {
    const { exitCode, out, err } = await runCommand(tools, ["--json", "--", ...stdioDemo]);
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: "demo server on stdio\n" });
    expect(JSON.parse(out)).toMatchObject({ tools: [{ name: "add" }, {}, {}, {}, { name: "fail" }] });
  });

  it("says how much of a model's context the list takes, and which tools take most", async () => {
    const { exitCode, out } = await runCommand(tools, ["--size", "--", ...stdioDemo]);
    expect(exitCode).toBe(0);
    const [heading = "", ...longest] = out.trimEnd().split("\n");
    const [, tokens, bytes] =
      /: 5 tools, about ([\d,]+) tokens \(([\d,]+) bytes of .+, 4 to a token\)$/u.exec(heading) ?? [];
    const number = (text = ""): number => Number(text.replaceAll(",", ""));
    expect(number(tokens)).toBe(Math.round(number(bytes) / 4));
    expect(longest).toHaveLength(5);
    const each = longest.map((line) => number(/ about ([\d,]+) tokens$/u.exec(line)?.[1]));
    expect(each).toEqual(each.toSorted((a, b) => b - a));
    expect(each.reduce((sum, one) => sum + one, 0)).toBeCloseTo(number(tokens), -1);
  });

  it("says where authorization is missing", async () => {
    const url = `${demo.origin}/modern`;
    expect(await runCommand(tools, [url])).toEqual({
      exitCode: 3,
      out: "",
      err: `headgate: ${url} requires authorization (HTTP 401); pass a token with --header "Authorization: Bearer …"\n`,
    });
  });

  it.each<[readonly string[], string]>([
    [["nonsense"], "`nonsense` is not an http or https URL; put `--` before a command to start"],
    [["npx", "-y", "server"], "unknown option -y; put `--` before a command to start"],
    [["http://x", "add"], "unexpected argument `add`; headgate call calls a tool"],
    [["http://x", "--url", "http://y"], "the URL is given twice; leave out --url, or the first word"],
  ])("refuses %j in words", async (args, problem) => {
    expect(await runCommand(tools, args)).toEqual({
      exitCode: 2,
      out: "",
      err: `headgate tools: ${problem}\nRun headgate tools --help for usage.\n`,
    });
  });
});

describe("a server that cannot be listed", () => {
  it.each<[string, number, string, string]>([
    ["no endpoint there", 404, "", "responded with HTTP 404; the endpoint of most servers is /mcp"],
    ["no access", 403, "", "denies access (HTTP 403)"],
    [
      "nothing behind the gateway",
      502,
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the upstream is gone\\u001b"}}',
      String.raw`responded with HTTP 502: the upstream is gone\u001b`,
    ],
    ["another kind of server", 200, "<html>", "responds, but does not speak MCP"],
  ])("is told in one line: %s", async (_what, status, body, said) => {
    await using server = await listenOnLoopback((_request, response) => {
      response.writeHead(status, { "content-type": status === 200 ? "text/html" : "application/json" });
      response.end(body);
    });
    const url = `${server.origin}/mcp`;
    expect(await runCommand(tools, [url])).toEqual({
      exitCode: status === 403 ? 3 : 4,
      out: "",
      err: `headgate: ${url} ${said}\n`,
    });
  });

  it("is told in one line: JSON that is none", async () => {
    await using server = await listenOnLoopback((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end('{"a"');
    });
    expect(await runCommand(tools, [server.origin])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: ${server.origin}/ responds, but does not speak MCP; the endpoint of most servers is /mcp\n`,
    });
  });

  it("is told in one line: JSON of another protocol", async () => {
    await using server = await listenOnLoopback((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end('{"ready":true}');
    });
    expect(await runCommand(tools, [`${server.origin}/mcp`])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: ${server.origin}/mcp responds, but does not speak MCP\n`,
    });
  });

  it("is told in one line: TLS expected, but not spoken", async () => {
    await using server = await listenOnLoopback((_request, response) => response.end());
    const url = `${server.origin.replace("http:", "https:")}/mcp`;
    expect(await runCommand(tools, [url])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: what listens at ${url} does not speak TLS; write http:// instead of https://, or correct the port\n`,
    });
  });

  it("is told in one line: a command that never responds", async () => {
    const program = [process.execPath, "-e", "process.stdin.resume()"];
    expect(await runCommand(tools, ["--timeout", "300ms", "--", ...program])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: \`${program.join(" ")}\` has not responded to anything for 300ms; wait longer with --timeout\n`,
    });
  });

  it("is told in one line: another protocol", async () => {
    await using server = await listenOnLoopback((request) => request.socket.end("SSH-2.0-OpenSSH_9.9\r\n"));
    expect(await runCommand(tools, [server.origin])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: what listens at ${server.origin}/ does not speak HTTP; check the port\n`,
    });
  });

  it("is told in one line: a port that fetch refuses", async () => {
    expect(await runCommand(tools, ["http://127.0.0.1:9/mcp"])).toEqual({
      exitCode: 4,
      out: "",
      err: "headgate: cannot reach http://127.0.0.1:9/mcp: bad port\n",
    });
  });

  it("is told in one line: nobody listens", async () => {
    const server = await listenOnLoopback(() => {});
    await server[Symbol.asyncDispose]();
    expect(await runCommand(tools, [server.origin])).toEqual({
      exitCode: 4,
      out: "",
      err: `headgate: nothing is listening at ${server.origin}/; start the server, or correct the URL\n`,
    });
  });

  it("is told in one line: no such host, command, or a command that ends", async () => {
    expect(await runCommand(tools, ["http://no-such-host.invalid/mcp"])).toMatchObject({
      exitCode: 4,
      err: "headgate: unknown host no-such-host.invalid\n",
    });
    expect(await runCommand(tools, ["--", "no-such-command-anywhere"])).toMatchObject({
      exitCode: 4,
      err: "headgate: cannot start `no-such-command-anywhere`: command not found\n",
    });
    const script = "console.error('no licence'); process.exitCode = 1";
    expect(await runCommand(tools, ["--", process.execPath, "-e", script])).toMatchObject({
      exitCode: 4,
      err: `no licence\nheadgate: \`${process.execPath} -e ${script}\` exited before it responded\n`,
    });
  });

  it("is asked through the proxy that the environment names", async () => {
    const asked: (string | undefined)[] = [];
    await using proxy = await listenOnLoopback((request, response) => {
      asked.push(request.url);
      response.writeHead(403).end();
    });
    const env = { HTTP_PROXY: proxy.origin };
    const { exitCode } = await runCommand(tools, ["http://mcp.example.com/mcp"], { env });
    expect(exitCode).toBe(3);
    expect(asked).toEqual(["http://mcp.example.com/mcp"]);
  });
});

describe("formatTool", () => {
  it("shows hostile definitions harmlessly and bare ones briefly", () => {
    expect(formatTool({ name: "bare", inputSchema: { type: "object" } })).toBe("\nbare\n");
    const text = formatTool({
      name: "x\u001B[2J",
      description: "first\u0007\n\nsecond",
      inputSchema: { type: "object", properties: { "k\r": { enum: ["low", "High"] } }, required: ["k\r"] },
    });
    expect(text).toBe(
      String.raw`
x\u001b[2J k =low|High
  first\u0007

  second
    k  low|High
`,
    );
  });
});
