import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { listenOnLoopback } from "../support/demo-http.ts";
import { headgate, headgateBin, testFolder } from "../support/headgate-command.ts";

describe("headgate doctor", () => {
  it("says of a working configuration what each server is and has", async () => {
    await using demo = await startGateway(["run", "--port", "0"]);
    using folder = testFolder();
    folder.write(
      "headgate.yaml",
      `listen: { port: 0 }
admin: false
workers: 2
routes:
  near: { upstream: { url: "${demo.url}" } }
  own: { upstream: { command: "${process.execPath}", args: ["${headgateBin}", stdio] } }
policy: { rules: [{ deny: "true" }] }
auth: { authenticators: { keys: { apiKeys: { keys: {} } } } }
`,
    );
    const { exitCode, stdout, stderr } = await headgate(["doctor"], { cwd: folder.path });
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^headgate\.yaml\n {2}ok {3}Node 24\S*\n {2}ok {3}files, folders and ports\n/u);
    expect(stdout).toMatch(
      /near: \S+\n {2}ok {3}TCP: connected in \d+ ms\n {2}ok {3}headgate-demo 1\.0\.0 answered after [\d.]+ s, modern\n {2}ok {3}5 tools, 6 resources, 1 prompt\n/u,
    );
    expect(stdout).toMatch(/own: .*\n {2}ok {3}headgate-demo 1\.0\.0 answered after [\d.]+ s, modern\n/u);
    expect(stdout).toMatch(/\d+ ok, 0 warnings, 0 failed\n$/u);
  });

  it.each<[what: string, response: string, remedy: string]>([
    ["an error", "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "look at the log of the server, or of the proxy"],
    ["a redirect", "HTTP/1.1 302 Found\r\nlocation: /login\r\n\r\n", "use the URL that it redirects to"],
    ["another protocol", "SSH-2.0-OpenSSH_9.9\r\n", "check the port: what listens there does not speak HTTP"],
    ["nothing at all", "", "look at the log of the server; a server with TLS needs a URL with https://"],
    ["no MCP", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "check the path of the URL"],
  ])("has a remedy for a server that answers with %s", async (_, response, remedy) => {
    await using server = await listenOnLoopback((request) => request.socket.end(response));
    const { exitCode, stdout } = await headgate(["doctor", "--upstream", `${server.origin}/mcp`]);
    expect([exitCode, stdout]).toEqual([1, expect.stringContaining(`       ${remedy}`)]);
  });

  it("tells of a command that fails what it wrote, and what to do", async () => {
    const code = 'console.error("no license found"); process.exit(3)';
    const { exitCode, stdout } = await headgate(["doctor", "--", process.execPath, "-e", code]);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("FAIL the server process exited with exit code 3\n       run the command by hand");
    expect(stdout).toContain("stderr: no license found\n");
  });

  it.each([
    [
      "a port without a server",
      "http://127.0.0.1:9/mcp",
      /FAIL TCP: cannot connect to 127\.0\.0\.1:9 \(ECONNREFUSED\)\n {7}start the server/u,
    ],
    ["a host that is not known", "http://no-such-host.invalid/mcp", /FAIL DNS: no-such-host\.invalid is not known/u],
  ])("stops at what is broken on the way: %s", async (_, url, expected) => {
    const { exitCode, stdout } = await headgate(["doctor", "--upstream", url]);
    expect([exitCode, stdout]).toEqual([1, expect.stringMatching(expected)]);
  });

  it("says where tokens come from if the server asks for one", async () => {
    await using upstream = await fakeUpstream((call) =>
      call.path.startsWith("/.well-known/oauth-protected-resource")
        ? call.reply({ resource: "x", authorization_servers: ["https://login.example.com"] })
        : call.replyRaw(401, { "www-authenticate": "Bearer" }),
    );
    const { exitCode, stdout } = await headgate(["doctor", "--upstream", upstream.url]);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("tokens come from https://login.example.com\n       set `upstream.headers`");
  });

  it("reports missing files and says what the arguments are", async () => {
    using folder = testFolder();
    folder.write("c.yaml", "upstream: { demo: true }\nadmin: false\nlisten: { port: 0 }\ndrift: { lock: none.json }\n");
    const { exitCode, stdout } = await headgate(["doctor", "c.yaml"], { cwd: folder.path });
    expect([exitCode, stdout]).toEqual([1, expect.stringContaining("FAIL drift.lock: cannot read ")]);
    expect(await headgate(["doctor"], { cwd: folder.path })).toMatchObject({ exitCode: 2 });
  });
});
