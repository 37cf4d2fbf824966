import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestModern } from "../../src/protocol/revisions.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { messageOf, nextMessage } from "../support/legacy-session.ts";
import { localConfig, openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern, type ModernRequest } from "../support/modern-request.ts";
import type { RawAnswer } from "../support/raw-http.ts";
import type { Peer } from "../support/peer-client.ts";
import { connectV2 } from "../support/v2-client.ts";

let fixture: RunningFixture;
let gateway: LocalGateway;

beforeAll(async () => {
  fixture = await startFixture({ era: "legacy" });
  const [command, ...args] = stdioFixture({ era: "legacy" });
  gateway = await openGateway({
    routes: {
      streamable: { upstream: { url: fixture.url, transport: "streamable-http" } },
      "http-sse": { upstream: { url: fixture.sseUrl ?? "", transport: "sse" } },
      stdio: { upstream: { command, args } },
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await fixture[Symbol.asyncDispose]();
});

const urlOf = (route: string): string => `${gateway.origin}/${route}/mcp`;
const overHttp = (route: string): Peer => ({ via: "http", url: urlOf(route) });

/** A call by hand; what its client can be asked is among what its `_meta` says. */
function callByHand(
  id: number,
  name: string,
  params: Readonly<Record<string, unknown>>,
  meta: Readonly<Record<string, unknown>> = {},
): ModernRequest {
  const { headers } = modernRequest(id, "tools/call", { name });
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...meta,
  };
  return { headers, body: { jsonrpc: "2.0", id, method: "tools/call", params: { ...params, name, _meta } } };
}

/** The message that answers a request, whether it came as JSON or at the end of a stream. */
async function answerTo(route: string, request: ModernRequest): Promise<Answer> {
  const { json, events } = await postModern(urlOf(route), request);
  // Our own gateway's answer, which the assertions look at member by member.
  return (json ?? messageOf(events.at(-1))) as Answer;
}

function isLog(message: unknown): boolean {
  return typeof message === "object" && message !== null && Reflect.get(message, "method") === "notifications/message";
}

interface Answer {
  readonly id: number;
  readonly result?: Readonly<Record<string, unknown>> & { readonly requestState?: string };
  readonly error?: { readonly code: number; readonly message: string };
}

describe.each(["streamable", "http-sse", "stdio"])("a legacy-only %s server and a modern client", (route) => {
  it("discovers, lists, calls, reads and prompts", async () => {
    await using client = await connectV2(overHttp(route), newestModern);
    expect(client.revision).toBe(newestModern);
    expect(client.sdk.getServerVersion()).toMatchObject({ name: "everything" });
    expect(await client.listTools()).toContain("test_simple_text");
    expect((await client.callTool("test_simple_text")).isError).toBe(false);
    expect((await client.callTool("test_error_handling")).isError).toBe(true);
    expect(await client.readResource("test://static-text")).toHaveLength(1);
    expect(await client.getPrompt("test_simple_prompt")).toHaveLength(1);
  });

  it("asks the client, its user and its model while the call waits", async () => {
    await using client = await connectV2(overHttp(route), newestModern);
    expect(await client.callTool("test_elicitation", { args: { message: "Who are you?" } })).toEqual({
      isError: false,
      texts: ['User response: action=accept, content={"response":"Ada"}'],
    });
    expect((await client.callTool("test_sampling", { args: { prompt: "Capital?" } })).texts).toEqual([
      "LLM response: Paris",
    ]);
    expect((await client.callTool("test_input_required_result_list_roots")).texts).toEqual([
      "Client roots: file:///tests",
    ]);
    expect(client.asked).toEqual(["elicitation/create", "sampling/createMessage", "roots/list"]);
  });

  it("keeps the questions of calls at the same time apart", async () => {
    await using client = await connectV2(overHttp(route), newestModern);
    const outcomes = await Promise.all(
      ["a", "b", "c"].map((message) => client.callTool("test_elicitation", { args: { message } })),
    );
    expect(outcomes.map(({ isError }) => isError)).toEqual([false, false, false]);
  });

  it("reports progress", async () => {
    await using client = await connectV2(overHttp(route), newestModern);
    const steps: number[] = [];
    await client.callTool("test_tool_with_progress", { onProgress: (progress) => steps.push(progress) });
    expect(steps).toEqual([0, 50, 100]);
  });

  it("logs to the request that wants it, from its level on", async () => {
    const logging = (id: number, level: string) =>
      postModern(
        urlOf(route),
        callByHand(id, "test_tool_with_logging", {}, { "io.modelcontextprotocol/logLevel": level }),
      );
    const texts = ({ events }: RawAnswer): unknown[] =>
      events.map((event) => messageOf(event)).filter((message) => isLog(message));
    expect(texts(await logging(1, "info"))).toHaveLength(3);
    expect(texts(await logging(2, "error"))).toEqual([]);
  });

  it("hears that the client has gone", async () => {
    const key = `modern to legacy ${route}`;
    const hold = callByHand(1, "test_hold", { arguments: { key } }, { progressToken: "held" });
    const stream = await streamModern(urlOf(route), hold);
    expect(await nextMessage(stream)).toMatchObject({ params: { progressToken: "held" } });
    stream.close();
    const outcome = await answerTo(route, callByHand(2, "test_hold_outcome", { arguments: { key } }));
    expect(outcome.result).toMatchObject({ content: [{ text: "cancelled" }] });
  });

  it("refuses a retry with other arguments, and one that comes twice", async () => {
    const asking = (id: number, message: string, more = {}): ModernRequest =>
      callByHand(
        id,
        "test_elicitation",
        { arguments: { message }, ...more },
        { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } },
      );
    const first = await answerTo(route, asking(1, "?"));
    expect(first.result).toMatchObject({ resultType: "input_required" });
    const requestState = first.result?.requestState;
    const inputResponses = { "question-1": { action: "accept", content: { response: "me" } } };
    const retry = (id: number, message: string) => asking(id, message, { inputResponses, requestState });

    const changed = await answerTo(route, retry(2, "!"));
    expect(changed.error).toMatchObject({ code: -32602, message: expect.stringMatching(/differ/u) });
    const answered = await answerTo(route, retry(3, "?"));
    expect(answered).toMatchObject({ id: 3, result: { resultType: "complete" } });
    const twice = await answerTo(route, retry(4, "?"));
    expect(twice.error).toMatchObject({ code: -32602, message: expect.stringMatching(/already used/u) });
  });

  it("tells listeners of changes under the id of their request", async () => {
    const filter = {
      notifications: { toolsListChanged: true, resourceSubscriptions: ["test://watched-resource"] },
    };
    await using stream = await streamModern(urlOf(route), modernRequest("listen-1", "subscriptions/listen", filter));
    const meta = { "io.modelcontextprotocol/subscriptionId": "listen-1" };
    expect(await nextMessage(stream)).toMatchObject({
      method: "notifications/subscriptions/acknowledged",
      params: { ...filter, _meta: meta },
    });
    await answerTo(route, modernRequest(7, "tools/call", { name: "test_trigger_tool_change" }));
    expect(await nextMessage(stream)).toMatchObject({
      method: "notifications/tools/list_changed",
      params: { _meta: meta },
    });
  });
});

describe("the bound of calls that wait for their client", () => {
  it("is the one of the configuration, and changes with it", async () => {
    const config = (suspendedCallsPerPrincipal: number) => ({
      upstream: { url: fixture.url },
      limits: { suspendedCallsPerPrincipal },
    });
    await using bounded = await openGateway(config(1));
    const askable = { "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } };
    const ask = async (id: number): Promise<unknown> => {
      const request = callByHand(id, "test_elicitation", { arguments: { message: "Sure?" } }, askable);
      const { json, events } = await postModern(bounded.url, request);
      return json ?? messageOf(events.at(-1));
    };
    const parked = { result: { resultType: "input_required" } };
    expect(await ask(1)).toMatchObject(parked);
    expect(await ask(2)).toMatchObject({ error: { data: { code: "overloaded" } } });
    expect(await bounded.gateway.reload(localConfig(config(2)))).toMatchObject({ ok: true });
    expect(await ask(3)).toMatchObject(parked);
  });
});
