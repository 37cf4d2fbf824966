import { statSync } from "node:fs";
import { kill } from "node:process";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { headgate, headgateBin, testFolder } from "../support/headgate-command.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { startProcess } from "../support/process.ts";

/** A call that counts for minutes, started on a gateway with the demo server. */
async function startSlowCall(url: string, ...more: readonly string[]) {
  const args = ["call", "count_slowly", "to=1000", "delay_ms=200", "--url", url, ...more];
  const call = await startProcess([process.execPath, headgateBin, ...args]);
  await call.waitForLine(/^progress: 1\/1000/u);
  return call;
}

describe("headgate call", () => {
  it.each([
    ["over Streamable HTTP", "/mcp"],
    ["over HTTP+SSE", "/sse"],
  ])("ends with a message when the gateway dies: %s", async (_, path) => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    await using call = await startSlowCall(`${gateway.origin}${path}`);
    kill(gateway.process.pid, "SIGKILL");
    expect(await call.exited).toEqual({ code: 4, signal: null });
    expect(call.output()).toContain(`headgate: ${gateway.origin}${path} closed the connection before it responded`);
  });

  it("ends with a message when the gateway is told twice to stop", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    await using call = await startSlowCall(gateway.url);
    kill(gateway.process.pid, "SIGINT");
    await gateway.process.waitForLine(/shutting down/u);
    kill(gateway.process.pid, "SIGINT");
    expect(await call.exited).toMatchObject({ code: 4 });
    expect(call.output()).toContain("closed the connection before it responded");
  });

  it("ends with a message when the gateway hangs, as long as the user wants to wait", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    await using call = await startSlowCall(gateway.url, "--timeout", "5s");
    kill(gateway.process.pid, "SIGSTOP");
    try {
      expect(await call.exited).toMatchObject({ code: 4 });
      expect(call.output()).toContain("has not responded to anything for 5s; wait longer with --timeout");
    } finally {
      kill(gateway.process.pid, "SIGCONT");
    }
  });

  it("waits for a tool that takes longer than that", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    const args = ["call", "count_slowly", "to=1", "delay_ms=5000", "--url", gateway.url, "--timeout", "4s"];
    expect(await headgate(args)).toMatchObject({ exitCode: 0, stdout: "Counted to 1.\n" });
  });

  it("ends at Ctrl+C, at once", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    await using call = await startSlowCall(gateway.url);
    kill(call.pid, "SIGINT");
    expect(await call.exited).toEqual({ code: null, signal: "SIGINT" });
  });

  it("ends with a message when a server closes the stream before its answer", async () => {
    await using upstream = await legacyUpstream((call, { id, method }) => {
      if (method === "tools/list") return call.reply({ jsonrpc: "2.0", id, result: { tools: [] } });
      return call.replyRaw(200, { "content-type": "text/event-stream" }, ": closing\n\n");
    });
    const { exitCode, stderr } = await headgate(["call", "x", "--args", "{}", "--url", upstream.url]);
    expect([exitCode, stderr]).toEqual([4, `headgate: ${upstream.url} closed the connection before it responded\n`]);
  });
});

describe("client commands", () => {
  it("take the URL of the server as the first word or as --url", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    const [called, listed] = await Promise.all([
      headgate(["call", gateway.url, "add", "a=2", "b=40"]),
      headgate(["tools", "--url", gateway.url]),
    ]);
    expect([called.exitCode, called.stdout]).toEqual([0, expect.stringContaining("42")]);
    expect([listed.exitCode, listed.stdout]).toEqual([0, expect.stringContaining("add a=NUMBER b=NUMBER")]);
  });

  it("talk to a gateway on a Unix socket", async () => {
    using folder = testFolder();
    const socket = `${folder.path}/headgate.sock`;
    const config = folder.write(
      "c.yaml",
      `upstream: { demo: true }\nadmin: false\nlisten: { unixSocket: ${socket} }\n`,
    );
    await using gateway = await startProcess([process.execPath, headgateBin, "run", "-c", config]);
    await gateway.waitForLine(/listening on .*headgate\.sock \(\/mcp\)$/u);
    const second = await headgate(["run", "-c", config]);
    expect([second.exitCode, second.stderr]).toEqual([
      1,
      expect.stringContaining("choose another `listen.unixSocket`, or stop that process"),
    ]);
    expect((await headgate(["call", "add", "a=2", "b=40", "--socket", socket])).stdout).toContain("42");
    expect((await headgate(["tools", "--socket", socket])).stdout).toContain("add a=NUMBER b=NUMBER");
    const missing = await headgate(["tools", "--socket", `${socket}.not`]);
    expect([missing.exitCode, missing.stderr]).toEqual([
      4,
      expect.stringContaining(`there is no socket ${socket}.not`),
    ]);
  });
});

describe.skipIf(process.platform === "win32")("the mode of a Unix socket", () => {
  it.for([
    ["", 0o600],
    [', socketMode: "0660"', 0o660],
    [', socketMode: "666"', 0o666],
  ] as const)("is set by the configuration: %s", async ([setting, mode]) => {
    using folder = testFolder();
    const socket = `${folder.path}/headgate.sock`;
    const config = `upstream: { demo: true }\nadmin: false\nlisten: { unixSocket: ${socket}${setting} }\n`;
    const file = folder.write("c.yaml", config);
    await using gateway = await startProcess([process.execPath, headgateBin, "run", "-c", file]);
    await gateway.waitForLine(/listening on/u);
    expect(statSync(socket).mode & 0o777).toBe(mode);
  });

  it("is refused if it is no mode", async () => {
    using folder = testFolder();
    for (const wrong of ["0660", '"rw"', '"0888"']) {
      const config = `upstream: { demo: true }\nlisten: { unixSocket: x.sock, socketMode: ${wrong} }\n`;
      const { exitCode, stdout, stderr } = await headgate(["check", folder.write("c.yaml", config)]);
      expect([exitCode, stdout + stderr]).toEqual([
        2,
        expect.stringContaining("listen.socketMode: is not a file mode"),
      ]);
    }
  });
});

describe("headgate resources and prompts", () => {
  it("list what a server has, and get one of it", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    const listed = await headgate(["resources", gateway.url]);
    expect(listed.stdout).toMatch(/: 6 resources, 1 template\n\n\S+:\/\/\S+\n/u);
    const [, uri = ""] = /^(\S+:\/\/\S*A1\S*)$/mu.exec(listed.stdout) ?? [];
    const read = await headgate(["resources", "read", uri, "--url", gateway.url]);
    expect([read.exitCode, read.stderr]).toEqual([0, ""]);
    expect(read.stdout).toContain("A1");
    expect(
      JSON.parse((await headgate(["resources", "read", uri, "--url", gateway.url, "--json"])).stdout),
    ).toHaveProperty("contents");
    expect(await headgate(["resources", "read", "nothing://here", "--url", gateway.url])).toMatchObject({
      exitCode: 5,
    });

    const prompts = await headgate(["prompts", gateway.url]);
    expect(prompts.stdout).toMatch(/: 1 prompt\n\nplan_arrival ship=STRING berth=STRING\n/u);
    const got = await headgate(["prompts", "get", "plan_arrival", "ship=Vega", "berth=A1", "--url", gateway.url]);
    expect([got.exitCode, got.stdout]).toEqual([0, expect.stringMatching(/^user: The ship Vega arrives/u)]);
    const missing = await headgate(["prompts", "get", "plan_arrival", "ship=Vega", "--url", gateway.url]);
    expect([missing.exitCode, missing.stderr]).toEqual([
      5,
      "headgate: plan_arrival: missing `berth`; see headgate prompts\n",
    ]);
    const unknown = await headgate(["prompts", "get", "plan_arival", "--url", gateway.url]);
    expect(unknown.stderr).toContain("did you mean `plan_arrival`?");
  });

  it("work over a command, too", async () => {
    const { stdout } = await headgate(["resources", "--", process.execPath, headgateBin, "stdio"]);
    expect(stdout).toContain("6 resources");
  });
});
