import { describe, expect, it } from "vitest";
import { z } from "zod";

import {
  addTools,
  createServer,
  tool,
  type OfflineRequest,
  type OfflineScript,
  type Tool,
} from "../../src/agent-kit/index.ts";
import { openSession } from "./session.ts";

const nothing = z.object({});

/** A server under the key `calc`, with its tools in the model's sight. */
function calc(...tools: readonly Tool[]) {
  return {
    calc: {
      type: "sdk",
      name: "calc",
      instance: createServer("Calculator", "1.0.0", { tools, alwaysLoad: true }),
    },
  } as const;
}

/** The model uses some tools at once, then says what came of it. */
function using(...uses: readonly (readonly [string, Readonly<Record<string, unknown>>?])[]): OfflineScript {
  return ({ index }) =>
    index === 0
      ? {
          toolUses: uses.map(([name, input = {}], at) => ({
            id: `toolu_${at}`,
            name: `mcp__calc__${name}`,
            input,
          })),
        }
      : { text: "done" };
}

/** What the model was told about a tool use. */
function told(requests: readonly OfflineRequest[], id = "toolu_0"): Readonly<Record<string, unknown>> | undefined {
  return requests.at(-1)?.toolResults.get(id);
}

describe("the real CLI and tools of this process", () => {
  it("[IP-070, IP-071, IP-020] lists and calls a tool, without a key and without a network", async () => {
    const calls: unknown[] = [];
    const echo = tool("echo", "Echoes", z.object({ text: z.string() }), ({ text }, { toolUseId, meta }) => {
      calls.push([text, toolUseId, typeof meta["progressToken"]]);
      return `you said ${text}`;
    });
    await using session = await openSession(using(["echo", { text: "hello" }]), {
      mcpServers: calc(echo),
      allowedTools: ["mcp__calc__echo"],
    });
    const { messages, result } = await session.run("Say hello.");
    expect(messages[0]).toMatchObject({
      type: "system",
      subtype: "init",
      raw: { tools: ["mcp__calc__echo"], mcp_servers: [{ name: "calc", status: "connected" }] },
    });
    expect(session.api.requests[0]?.toolNames).toEqual(["mcp__calc__echo"]);
    expect(calls).toEqual([["hello", "toolu_0", "number"]]);
    expect(JSON.stringify(told(session.api.requests))).toContain("you said hello");
    expect(result).toMatchObject({ ok: true, text: "done", turns: 2, costUsd: expect.any(Number) });
    expect(session.options.env?.["ANTHROPIC_API_KEY"]).toBe("offline");
    expect(session.warnings).toEqual([]);
  });

  it("[IP-043] runs read-only calls of one turn side by side", async () => {
    const all = Promise.withResolvers<void>();
    let running = 0;
    const meet = tool({
      name: "meet",
      description: "Waits for two others",
      input: nothing,
      annotations: { readOnlyHint: true },
      run: async () => {
        running += 1;
        if (running === 3) all.resolve();
        await all.promise;
        return "met";
      },
    });
    await using session = await openSession(using(["meet"], ["meet"], ["meet"]), {
      mcpServers: calc(meet),
      allowedTools: ["mcp__calc"],
    });
    const { result } = await session.run("Meet.");
    expect(result.ok).toBe(true);
    expect(running).toBe(3);
  });

  it("[IP-043] runs other calls one after the other", async () => {
    let running = 0;
    let most = 0;
    const step = tool("step", "One at a time", nothing, async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      running -= 1;
    });
    await using session = await openSession(using(["step"], ["step"]), {
      mcpServers: calc(step),
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Step.")).result.ok).toBe(true);
    expect(most).toBe(1);
  });

  it("[IP-044] takes progress and log messages during a call", async () => {
    const work = tool("work", "Works", nothing, async (_args, { progress, log }) => {
      await progress(1, { total: 2, message: "half" });
      await log("info", "going on");
      await progress(2, { total: 2 });
      return "worked";
    });
    await using session = await openSession(using(["work"]), {
      mcpServers: calc(work),
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Work.")).result.ok).toBe(true);
    expect(JSON.stringify(told(session.api.requests))).toContain("worked");
    expect(session.warnings).toEqual([]);
  });

  it("[IP-045] uses a tool that came during the turn", async () => {
    const servers = calc();
    const { instance } = servers.calc;
    // The schema of the new tool tells when it is listed; it is read once more when the tool is defined.
    const listed = Promise.withResolvers<void>();
    let readings = 0;
    const read = () => {
      readings += 1;
      if (readings > 1) listed.resolve();
      return { type: "object" };
    };
    const schema = { "~standard": { ...nothing["~standard"], jsonSchema: { input: read, output: read } } };
    const grow = async () => {
      addTools(
        instance,
        tool({ name: "grown", description: "New", input: schema, run: () => "grown up", alwaysLoad: true }),
      );
      await listed.promise;
      return "growing";
    };
    addTools(instance, tool({ name: "grow", description: "Adds a tool", input: nothing, run: grow, alwaysLoad: true }));
    await using session = await openSession(
      ({ index }) => {
        if (index === 0) return { toolUses: [{ id: "toolu_0", name: "mcp__calc__grow", input: {} }] };
        if (index === 1) return { toolUses: [{ id: "toolu_1", name: "mcp__calc__grown", input: {} }] };
        return { text: "done" };
      },
      { mcpServers: servers, allowedTools: ["mcp__calc"] },
    );
    expect((await session.run("Grow.")).result.ok).toBe(true);
    expect(JSON.stringify(told(session.api.requests, "toolu_1"))).toContain("grown up");
    expect(session.api.requests.map(({ toolNames }) => toolNames.includes("mcp__calc__grown"))).toEqual([
      false,
      true,
      true,
    ]);
  });

  it("[IP-052, IP-058] tells the model of handlers that throw, return rubbish or get wrong arguments", async () => {
    const instance = createServer("Bad", "1", {
      alwaysLoad: true,
      onToolError: () => {},
      tools: [
        tool("fails", "", nothing, () => {
          throw new Error("out of paper");
        }),
        tool("rubbish", "", nothing, () => () => 1),
        tool("strict", "", z.object({ n: z.number() }), ({ n }) => n),
      ],
    });
    await using session = await openSession(using(["fails"], ["rubbish"], ["strict", { n: "x" }]), {
      mcpServers: { calc: { type: "sdk", name: "calc", instance } },
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Try.")).result.ok).toBe(true);
    const errors = ["toolu_0", "toolu_1", "toolu_2"].map((id) => told(session.api.requests, id));
    expect(errors).toEqual([
      expect.objectContaining({ is_error: true, content: expect.stringContaining("out of paper") }),
      expect.objectContaining({ is_error: true, content: expect.stringContaining("received function") }),
      expect.objectContaining({ is_error: true, content: expect.stringMatching(/\bn: /u) }),
    ]);
  });

  it("[IP-050, IP-051] reads structured content, and keeps what is too large for the model elsewhere", async () => {
    const both = tool("both", "", nothing, () => ({
      content: [{ type: "text", text: "for people" }],
      structuredContent: { answer: 42 },
    }));
    const large = tool("large", "", nothing, () => "x".repeat(400_000));
    await using session = await openSession(using(["both"], ["large"]), {
      mcpServers: calc(both, large),
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Read.")).result.ok).toBe(true);
    const seen = JSON.stringify(told(session.api.requests));
    expect([seen.includes("42"), seen.includes("for people")]).toEqual([true, false]);
    const preview = JSON.stringify(told(session.api.requests, "toolu_1"));
    expect(preview.length).toBeLessThan(20_000);
    expect(preview).toMatch(/saved|file|output/iu);
  });

  it("[IP-008, IP-009] hides tools that are not always loaded, and shows the server's instructions", async () => {
    const shy = tool("shy", "Hidden", nothing, () => "");
    const loud = tool({ name: "loud", description: "Shown", input: nothing, run: () => "", alwaysLoad: true });
    const instance = createServer("Calculator", "1", {
      tools: [shy, loud],
      instructions: "Prefer addition to guessing.",
    });
    await using session = await openSession([{ text: "done" }], {
      mcpServers: { calc: { type: "sdk", name: "calc", instance } },
      builtInTools: ["default"],
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Hello.")).result.ok).toBe(true);
    const [first] = session.api.requests;
    const body = first?.body["tools"];
    const sight = Array.isArray(body)
      ? body.filter((entry: Record<string, unknown>) => entry["defer_loading"] !== true)
      : [];
    const names = sight.map((entry: Record<string, unknown>) => entry["name"]);
    expect([names.includes("mcp__calc__loud"), names.includes("mcp__calc__shy")]).toEqual([true, false]);
    expect(JSON.stringify(first?.body)).toContain("Prefer addition to guessing.");
  });

  it("[IP-038] asks for resources only when the model does", async () => {
    const servers = calc();
    const reads: string[] = [];
    servers.calc.instance.registerResource("note", "note://1", {}, (uri) => {
      reads.push(uri.href);
      return { contents: [{ uri: uri.href, text: "buy milk" }] };
    });
    await using session = await openSession(
      ({ index, toolNames }) => {
        if (index > 0) return { text: "done" };
        const name = toolNames.find((candidate) => /ReadMcpResource/iu.test(candidate)) ?? "ReadMcpResourceTool";
        return { toolUses: [{ id: "toolu_0", name, input: { server: "calc", uri: "note://1" } }] };
      },
      {
        mcpServers: servers,
        builtInTools: ["ReadMcpResourceTool", "ListMcpResourcesTool"],
        allowedTools: ["ReadMcpResourceTool"],
        env: { ENABLE_TOOL_SEARCH: "false" },
      },
    );
    expect((await session.run("Read the note.")).result.ok).toBe(true);
    expect(reads).toEqual(["note://1"]);
    expect(JSON.stringify(told(session.api.requests))).toContain("buy milk");
  });

  it("[IP-049] gives up a call after the server's timeout, and the handler is told", async () => {
    const aborted = Promise.withResolvers<void>();
    const forever = tool("forever", "", nothing, async (_args, { signal }) => {
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      aborted.resolve();
    });
    await using session = await openSession(using(["forever"]), {
      mcpServers: { calc: { ...calc(forever).calc, timeout: 1000 } },
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Wait.")).result.ok).toBe(true);
    await aborted.promise;
    expect(told(session.api.requests)).toMatchObject({ is_error: true });
  });
});
