import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  completable,
  createMcpHandler,
  inputRequired,
  inputResponse,
  type McpServer,
  ResourceTemplate,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";

import type { Era } from "../../src/protocol/revisions.ts";
import { askModel } from "../fixtures/everything/asking-tools.ts";
import { notifierOf, type ChangeNotifier } from "../fixtures/everything/change-tools.ts";
import { createLegacySessions } from "../fixtures/everything/legacy-sessions.ts";
import { askFor } from "../fixtures/everything/multi-round-tools.ts";
import { acceptSubscriptions } from "../fixtures/everything/resources.ts";
import { createToolServer } from "./tool-server.ts";

/** A message as it came to a member, with the headers that repeat parts of it. */
export interface MemberMessage {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly headers: IncomingMessage["headers"];
}

/** A server of one era over HTTP that says its name in everything, so that it shows who was asked. */
export interface NamedMember extends AsyncDisposable {
  readonly url: string;
  readonly era: Era;
  /** The messages of a method that came so far. */
  readonly received: (method: string) => readonly MemberMessage[];
  /** Resolves when a call of `hold` has been cancelled. */
  readonly cancelled: Promise<void>;
}

/** Its tools, prompts and URIs are those of every such server; only what they answer differs. */
export async function serveNamedMember(name: string, era: Era): Promise<NamedMember> {
  const messages: MemberMessage[] = [];
  const cancelled = Promise.withResolvers<void>();
  // A modern server is made for each request, so what has changed is kept here.
  const grown: string[] = [];
  const create = (changes?: ChangeNotifier): McpServer => createMember(name, grown, cancelled.resolve, changes);
  const handler = createMcpHandler(() => create(handler.notify), { legacy: "reject" });
  const fetch = era === "legacy" ? createLegacySessions(() => create()) : handler.fetch;
  const handle = toNodeHandler({ fetch });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("end", () => {
      const text = Buffer.concat(chunks).toString();
      const body: unknown = text === "" ? undefined : JSON.parse(text);
      const { method = "", params = {} } = Object(body) as Partial<MemberMessage>;
      messages.push({ method, params, headers: request.headers });
    });
    // Node sets both on every request that a server receives.
    void handle(request as IncomingMessage & { method: string; url: string }, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    era,
    received: (method) => messages.filter((message) => message.method === method),
    cancelled: cancelled.promise,
    [Symbol.asyncDispose]: async () => {
      const ended = once(server, "close");
      server.close();
      server.closeAllConnections();
      await ended;
    },
  };
}

function createMember(
  name: string,
  grown: string[],
  onCancelled: () => void,
  changes: ChangeNotifier | undefined,
): McpServer {
  const server = createToolServer({ name, tools: ["who"] });
  server.server.registerCapabilities({
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    completions: {},
  });
  const isSubscribed = acceptSubscriptions(server);
  const told = changes ?? notifierOf(server, isSubscribed);
  const said = (text: string) => ({ content: [{ type: "text" as const, text: `${name}: ${text}` }] });
  const tool = (own: string, run: (context: ServerContext) => unknown) => {
    server.registerTool(own, {}, run as (context: ServerContext) => ReturnType<typeof said>);
  };

  tool("ask", ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, "who");
    if (answer.kind !== "elicit") return inputRequired({ inputRequests: { who: askFor("Who are you?", "who") } });
    return said(JSON.stringify(answer.content));
  });
  tool("sample", ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, "model");
    if (answer.kind !== "sampling") return inputRequired({ inputRequests: { model: askModel("Capital?", 10) } });
    return said(JSON.stringify(answer.result.content));
  });
  tool("roots", ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, "roots");
    if (answer.kind !== "roots") return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
    return said(answer.roots.map(({ uri }) => uri).join());
  });
  tool("log", async ({ mcpReq }) => {
    await mcpReq.log("info", `${name} logs`, "core");
    return said("logged");
  });
  tool("report", async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken !== undefined)
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 7 } });
    return said("reported");
  });
  tool("hold", async ({ mcpReq: { signal, _meta: meta, notify } }) => {
    const progressToken = meta?.progressToken;
    if (progressToken !== undefined)
      await notify({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    if (!signal.aborted) await once(signal, "abort");
    onCancelled();
    return said("nobody hears this");
  });
  tool("link", () => ({
    content: [{ type: "resource_link", uri: `only-linked:${name}`, name: "linked" }],
  }));
  tool("grow", () => {
    const another = `grown${grown.length}`;
    grown.push(another);
    if (changes === undefined) tool(another, () => said(another));
    told.toolsChanged();
    return said("grown");
  });
  tool("update", () => {
    told.resourceUpdated(`${name}://watched`);
    return said("updated");
  });
  for (const another of grown) tool(another, () => said(another));

  const begun = (values: readonly string[]) => (value: string) => values.filter((one) => one.startsWith(value));
  server.registerPrompt(
    "greet",
    { argsSchema: z.object({ whom: completable(z.string(), begun([`${name}-prompt`])) }) },
    ({ whom }) => ({ messages: [{ role: "user", content: { type: "text", text: `${name} greets ${whom}` } }] }),
  );
  const read = ({ href }: URL) => ({ contents: [{ uri: href, text: `${name} ${href}` }] });
  const listed = [`${name}://watched`, "shared://one"];
  for (const uri of [...listed, `only-linked:${name}`]) server.registerResource(uri, uri, {}, read);
  // Some resources are known only to who has seen a link to them.
  server.server.setRequestHandler("resources/list", () => ({ resources: listed.map((uri) => ({ uri, name: uri })) }));
  server.registerResource(
    "items",
    new ResourceTemplate(`${name}://items/{id}`, { list: undefined, complete: { id: begun([`${name}-item`]) } }),
    {},
    read,
  );
  return server;
}
