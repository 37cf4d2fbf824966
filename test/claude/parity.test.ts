// What users of the official agent SDK would miss, with the real CLI.
import { describe, expect, it } from "vitest";
import { z } from "zod";

import {
  type AgentMessage,
  type AgentOptions,
  createServer,
  listSessions,
  type OfflineScript,
  startAgent,
  type Tool,
  tool,
} from "../../src/agent-kit/index.ts";
import { openSession } from "./session.ts";

const nothing = z.object({});

function calc(tools: readonly Tool[], more: object = {}): NonNullable<AgentOptions["mcpServers"]> {
  const instance = createServer("Calculator", "1.0.0", { tools, alwaysLoad: true });
  return { calc: { type: "sdk", name: "calc", instance, ...more } };
}

/** The model calls a tool once, then answers. */
const callOnce =
  (name: string): OfflineScript =>
  ({ index }) =>
    index === 0 ? { toolUses: [{ id: "toolu_0", name, input: {} }] } : { text: "done" };

describe.each(["initialize", "mcp-config"] as const)("tool policies and timeouts, announced by %s", (announce) => {
  it.each(["always_allow", "always_ask", "always_deny"] as const)("hold for %s", async (permission) => {
    let ran = 0;
    const asked: string[] = [];
    const run = tool("run", "Runs", nothing, () => {
      ran += 1;
      return "ran";
    });
    await using session = await openSession(callOnce("mcp__calc__run"), {
      announce,
      mcpServers: calc([run], { toolPolicies: [{ name: "run", permission }] }),
      // always_ask asks about tools that are allowed otherwise.
      ...(permission === "always_ask" ? { allowedTools: ["mcp__calc"] } : {}),
      canUseTool: ({ toolName }) => {
        asked.push(toolName);
        return { behavior: "deny", message: "no" };
      },
    });
    await session.run("Go.");
    expect([ran, asked]).toEqual(
      {
        always_allow: [1, []],
        always_ask: [0, ["mcp__calc__run"]],
        always_deny: [0, []],
      }[permission],
    );
  });

  it("hold for a timeout", async () => {
    const aborted = Promise.withResolvers<void>();
    const slow = tool("slow", "Never ends", nothing, async (_, { signal }) => {
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve());
      });
      aborted.resolve();
      return "late";
    });
    await using session = await openSession(callOnce("mcp__calc__slow"), {
      announce,
      mcpServers: calc([slow], { timeout: 1500 }),
      allowedTools: ["mcp__calc"],
    });
    await session.run("Go.");
    expect(JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"))).toContain("timed out");
    await aborted.promise;
  });
});

it("a hook that throws denies the call", async () => {
  let ran = 0;
  const run = tool("run", "Runs", nothing, () => {
    ran += 1;
    return "ran";
  });
  await using session = await openSession(callOnce("mcp__calc__run"), {
    mcpServers: calc([run]),
    allowedTools: ["mcp__calc"],
    hooks: {
      PreToolUse: [
        {
          hooks: [
            () => {
              throw new Error("database down");
            },
          ],
        },
      ],
    },
  });
  await session.run("Go.");
  expect(ran).toBe(0);
  expect(session.warnings.map(({ code }) => code)).toEqual(["callback_failed"]);
});

it("a prompt joins the running turn", async () => {
  const [started, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const wait = tool("wait", "Waits", nothing, async () => {
    started.resolve();
    await go.promise;
    return "waited";
  });
  await using session = await openSession(callOnce("mcp__calc__wait"), {
    mcpServers: calc([wait]),
    allowedTools: ["mcp__calc"],
  });
  const agent = await session.start();
  const seen: AgentMessage[] = [];
  const turn = (async () => {
    for await (const message of agent.send("First.")) seen.push(message);
  })();
  await started.promise;
  await agent.steer("Also look at the tea.");
  go.resolve();
  await turn;
  expect(seen.filter(({ type }) => type === "result")).toHaveLength(1);
  expect(JSON.stringify(session.api.requests.at(-1)?.body)).toContain("Also look at the tea.");
  expect((await agent.ask("Next.")).ok).toBe(true);
  await agent.close();
});

it("yields what the model is writing", async () => {
  await using session = await openSession([{ text: "Hello there" }], { partialMessages: true });
  const { messages } = await session.run("Hi.");
  const text = messages.map((message) => (message.type === "partial" ? message.text : "")).join("");
  expect(text).toBe("Hello there");
});

it("gives structured output", async () => {
  const script: OfflineScript = ({ index, toolNames }) => {
    const name = toolNames.find((one) => /structured/iu.test(one)) ?? "StructuredOutput";
    return index === 0 ? { toolUses: [{ id: "toolu_0", name, input: { count: 3 } }] } : { text: "done" };
  };
  await using session = await openSession(script, {
    outputSchema: z.toJSONSchema(z.object({ count: z.int() })),
  });
  const { result } = await session.run("How many?");
  expect(result).toMatchObject({ ok: true, output: { count: 3 } });
});

it("gives work to a subagent, whose messages name the tool use", async () => {
  const script: OfflineScript = ({ body, toolResults }) => {
    if (JSON.stringify(body["system"]).includes("You count things.")) return { text: "I counted 7." };
    if (toolResults.has("toolu_task")) return { text: "done" };
    const input = {
      description: "count",
      prompt: "Count.",
      subagent_type: "counter",
      run_in_background: false,
    };
    return { toolUses: [{ id: "toolu_task", name: toolFor(body), input }] };
  };
  const toolFor = (body: Readonly<Record<string, unknown>>): string => {
    const tools = Array.isArray(body["tools"]) ? body["tools"] : [];
    const names = tools.map((one: unknown) => String(Reflect.get(Object(one), "name")));
    return names.find((name) => name === "Agent" || name === "Task") ?? "Task";
  };
  await using session = await openSession(script, {
    builtInTools: ["Task", "Agent"],
    allowedTools: ["Task", "Agent"],
    agents: { counter: { description: "Counts things", prompt: "You count things.", tools: [] } },
  });
  const { messages, result } = await session.run("Count the things.");
  expect(result).toMatchObject({ ok: true });
  const told = JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_task"));
  expect(told).toContain("I counted 7.");
  expect(messages.some((message) => "parentToolUseId" in message && message.parentToolUseId === "toolu_task")).toBe(
    true,
  );
});

it("stops at a budget", async () => {
  const endless: OfflineScript = () => ({ toolUses: [{ name: "mcp__calc__again", input: {} }] });
  const again = tool("again", "Again", nothing, () => "again");
  await using session = await openSession(endless, {
    mcpServers: calc([again]),
    allowedTools: ["mcp__calc"],
    maxTurns: 50,
    maxBudgetUsd: 0.000_001,
  });
  const { result } = await session.run("Go on for ever.");
  expect(result).toMatchObject({ ok: false, reason: "error_max_budget_usd" });
});

it("lists stored conversations, and goes on with one or with a copy of it", async () => {
  await using session = await openSession(() => ({ text: "fine" }), { persistSession: true });
  const first = (await session.run("Remember the tea.")).result.sessionId ?? "none";
  const { env = {} } = session.options;
  const listed = await listSessions({ env });
  expect(listed).toMatchObject([{ sessionId: first, firstPrompt: "Remember the tea." }]);
  const goOn = async (options: AgentOptions) => {
    await using agent = await startAgent({ ...session.options, ...options });
    const { sessionId } = await agent.ask("And now?");
    return { sessionId, sent: JSON.stringify(session.api.requests.at(-1)?.body) };
  };
  const resumed = await goOn({ resume: first });
  expect(resumed.sent).toContain("Remember the tea.");
  expect(resumed.sessionId).toBe(first);
  const forked = await goOn({ resume: first, forkSession: true });
  expect(forked.sent).toContain("Remember the tea.");
  expect(forked.sessionId).not.toBe(first);
});

it("tells the model what went wrong, in the words of the error and without paths of this machine", async () => {
  const fail = tool("fail", "Fails", nothing, () => {
    throw new Error("Path `email` is required; see https://example.com/docs/x:80 and /usr/share/secret/key.pem");
  });
  await using session = await openSession(callOnce("mcp__calc__fail"), {
    mcpServers: calc([fail]),
    allowedTools: ["mcp__calc"],
  });
  await session.run("Go.");
  const told = JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"));
  expect(told).toContain("Path `email` is required; see https://example.com/docs/x:80 and <path>");
});

it("adds servers one after the other, all or none", async () => {
  await using session = await openSession(() => ({ text: "done" }));
  const agent = await session.start();
  const server = (name: string) =>
    ({
      type: "sdk",
      name,
      instance: createServer(name, "1", { tools: [tool("t", "T", nothing, () => "ok")] }),
    }) as const;
  await Promise.all([agent.servers.add({ one: server("one") }), agent.servers.add({ two: server("two") })]);
  const busy = server("busy");
  await using other = await session.start();
  await other.servers.add({ busy });
  const good = server("good");
  await expect(agent.servers.add({ good, busy })).rejects.toMatchObject({ code: "instance_in_use" });
  await agent.servers.add({ good });
  for (const key of ["one", "two", "good"]) {
    expect(await agent.servers.ready(key)).toMatchObject({ status: "connected" });
  }
  await agent.close();
});
