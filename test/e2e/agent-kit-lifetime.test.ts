import { setImmediate } from "node:timers/promises";

import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServer, query, startAgent, tool, type ToolContext } from "../../src/agent-kit/index.ts";
import {
  call,
  handshake,
  mcp,
  mcpResponse,
  opening,
  prompted,
  result,
  scripted,
} from "../support/agent-kit/dialogue.ts";

/** A server with one tool that runs until it is aborted. */
function endless() {
  const started = Promise.withResolvers<ToolContext>();
  const aborted = Promise.withResolvers<void>();
  const wait = tool("wait", "", z.object({}), async (_args, context) => {
    started.resolve(context);
    await new Promise((resolve) => {
      context.signal.addEventListener("abort", resolve);
    });
    aborted.resolve();
  });
  const instance = createServer("Endless", "1", { tools: [wait] });
  return { instance, started: started.promise, aborted: aborted.promise };
}

function registered(instance: ReturnType<typeof createServer>) {
  return { calc: { type: "sdk", name: "calc", instance } } as const;
}

const waiting = [opening(), handshake("calc"), prompted("x"), call("R1", "calc", 2, "wait")] as const;

async function isGone(pid: number): Promise<boolean> {
  for (let tries = 0; tries < 1000; tries += 1) {
    try {
      process.kill(pid, 0);
    } catch {
      return true;
    }
    await setImmediate();
  }
  return false;
}

describe("the end of an agent", () => {
  it("[IP-065, IP-079] closes the bridges and leaves the user's server for the next agent", async () => {
    const { instance } = endless();
    for (const text of ["first", "second"]) {
      using dialogue = scripted([opening(), handshake("calc"), prompted("x"), result(text), { eof: true }], {
        mcpServers: registered(instance),
      });
      const agent = await startAgent(dialogue.options);
      expect(instance.isConnected()).toBe(true);
      expect(await agent.ask("x")).toMatchObject({ text });
      await agent.close();
      await agent.close();
      expect(instance.isConnected()).toBe(false);
      await expect(agent.ask("y")).rejects.toMatchObject({ code: "agent_closed" });
      await expect(agent.interrupt()).rejects.toMatchObject({ code: "agent_closed" });
    }
  });

  it("[IP-066] refuses an instance that another agent has, before a process starts", async () => {
    const { instance } = endless();
    using first = scripted([opening()], { mcpServers: registered(instance) });
    await using agent = await startAgent(first.options);
    expect(agent.info).toEqual({});
    using second = scripted([{ exit: 1 }], { mcpServers: registered(instance) });
    await expect(startAgent(second.options)).rejects.toMatchObject({ code: "instance_in_use" });
    expect(instance.isConnected()).toBe(true);
  });

  it("[IP-067] keeps the input open until the last result", async () => {
    const { instance } = endless();
    using dialogue = scripted(
      [
        opening(),
        handshake("calc"),
        prompted("x"),
        { cli: { type: "system", subtype: "thinking" } },
        // An input that was closed after the prompt could not bring this answer.
        mcp("R1", "calc", { id: 2, method: "ping" }, { id: 2, result: {} }),
        result("done"),
        { eof: true },
      ],
      { mcpServers: registered(instance) },
    );
    const kinds: string[] = [];
    for await (const { type } of query({ prompt: "x", options: dialogue.options })) kinds.push(type);
    expect(kinds).toEqual(["system", "result"]);
  });

  it("[IP-078] comes with its signal: handlers stop, the process ends, the bridge closes", async () => {
    const { instance, started, aborted } = endless();
    const controller = new AbortController();
    using dialogue = scripted([...waiting, { eof: true }], {
      mcpServers: registered(instance),
      signal: controller.signal,
    });
    const running = (async () => {
      for await (const _ of query({ prompt: "x", options: dialogue.options }));
    })();
    await started;
    const outcome = running.catch((error: unknown) => error);
    controller.abort(new Error("user left"));
    await aborted;
    expect(await outcome).toMatchObject({ code: "aborted", cause: { message: "user left" } });
    expect(instance.isConnected()).toBe(false);
    await expect(startAgent(dialogue.options)).rejects.toMatchObject({ code: "aborted" });
  });

  it("[IP-078] comes when the iteration is left, also for a CLI that does not listen", async () => {
    const { instance, aborted } = endless();
    using dialogue = scripted([...waiting, { hang: true }], {
      mcpServers: registered(instance),
      closeTimeoutMs: 50,
    });
    let pid = 0;
    for await (const message of query({ prompt: "x", options: dialogue.options })) {
      if (message.type !== "other") continue;
      pid = Number(message.raw["pid"]);
      break;
    }
    await aborted;
    expect(await isGone(pid)).toBe(true);
    expect(instance.isConnected()).toBe(false);
  });

  it("interrupts a turn that is left, and goes on with the next one", async () => {
    using dialogue = scripted([
      opening(),
      prompted("x"),
      { cli: { type: "assistant", message: { content: "well…" } } },
      { host: { type: "control_request", request_id: "$i", request: { subtype: "interrupt" } } },
      { cli: { type: "control_response", response: { subtype: "success", request_id: "$i" } } },
      { cli: { type: "result", subtype: "error_during_execution" } },
      prompted("y"),
      result("next"),
    ]);
    await using agent = await startAgent(dialogue.options);
    for await (const message of agent.send("x")) if (message.type === "assistant") break;
    expect(await agent.ask("y")).toMatchObject({ ok: true, text: "next" });
  });
});

describe("a CLI that fails", () => {
  it("[IP-060, IP-068] is reported with exit code and last lines, to everything that waits", async () => {
    const { instance, aborted } = endless();
    using dialogue = scripted(
      [...waiting, { host: { request: { subtype: "mcp_status" } } }, { stderr: "panic: out of memory" }, { exit: 3 }],
      { mcpServers: registered(instance) },
    );
    await using agent = await startAgent(dialogue.options);
    const outcomes = [agent.ask("x"), agent.servers.status()].map(async (one) => one.catch((error: unknown) => error));
    for (const outcome of outcomes) {
      expect(await outcome).toMatchObject({
        code: "cli_exited",
        message: expect.stringMatching(/exited with code 3.*panic: out of memory/su),
        details: { exitCode: 3, stderr: "panic: out of memory" },
      });
    }
    await aborted;
    expect(instance.isConnected()).toBe(false);
  });

  it("[IP-068, IP-075] rejects the iteration when it ends before the result", async () => {
    const stderr: string[] = [];
    using dialogue = scripted([opening(), prompted("x"), { stderr: "bye" }, { exit: 0 }], {
      onStderr: (text) => stderr.push(text),
    });
    const messages = query({ prompt: "x", options: dialogue.options });
    await expect(messages.next()).rejects.toMatchObject({ code: "cli_exited", details: { exitCode: 0 } });
    expect(stderr.join("")).toBe("bye\n");
  });

  it("[IP-040] fails the session with a line that is too long", async () => {
    using dialogue = scripted([opening(), prompted("x"), { bytes: 5000 }, { eof: true }], {
      maxLineBytes: 4096,
    });
    const messages = query({ prompt: "x", options: dialogue.options });
    await expect(messages.next()).rejects.toMatchObject({
      code: "line_too_long",
      message: expect.stringMatching(/more than 4096 bytes.*maxLineBytes/u),
    });
  });

  it("[IP-060] that does not answer is given up", async () => {
    using dialogue = scripted([{ eof: true }], { controlTimeoutMs: 300 });
    await expect(startAgent(dialogue.options)).rejects.toMatchObject({ code: "control_timeout" });
  });

  it("[IP-015, IP-060] is never started for options that are wrong", async () => {
    const { instance } = endless();
    const wrong = { calc: { type: "sdk", name: "other", instance } } as const;
    await expect(startAgent({ mcpServers: wrong, cliPath: "/nowhere/claude" })).rejects.toMatchObject({
      code: "server_invalid",
    });
    await expect(startAgent({ cliPath: "/nowhere/claude" })).rejects.toMatchObject({ code: "cli_not_found" });
    await expect(startAgent({ cliPath: process.execPath, cwd: "/nowhere" })).rejects.toMatchObject({
      code: "cli_not_started",
    });
  });

  it("[IP-069] gets an answer for a handler that throws and for one that returns rubbish", async () => {
    const fails = tool("fails", "", z.object({}), () => {
      throw new Error("no luck");
    });
    const rubbish = tool("rubbish", "", z.object({}), () => () => 1);
    const instance = createServer("Bad", "1", { tools: [fails, rubbish], onToolError: () => {} });
    using dialogue = scripted(
      [
        opening(),
        handshake("calc"),
        prompted("x"),
        call("R1", "calc", 2, "fails"),
        mcpResponse("R1", { id: 2, result: { isError: true, content: [{ text: "no luck" }] } }),
        call("R2", "calc", 3, "rubbish"),
        mcpResponse("R2", { id: 3, result: { isError: true } }),
        result("ok"),
      ],
      { mcpServers: registered(instance) },
    );
    await using agent = await startAgent(dialogue.options);
    expect(await agent.ask("x")).toMatchObject({ ok: true });
  });
});
