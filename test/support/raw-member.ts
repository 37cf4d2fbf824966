import type { Era } from "../../src/protocol/revisions.ts";
import { type FakeUpstream, fakeUpstream, type UpstreamStream } from "./fake-upstream.ts";
import { sentMessage } from "./legacy-upstream.ts";

type Json = Readonly<Record<string, unknown>>;

/** A server of one era, written by hand: for what the SDK's servers do not have. */
export interface RawMember extends FakeUpstream {
  readonly era: Era;
  /** The parameters of the requests of a method that came so far, without `_meta`. */
  readonly received: (method: string) => readonly Json[];
  /** Sends a notification to who listens: on the GET stream, or on that of `subscriptions/listen`. */
  readonly notify: (method: string, params: Json) => Promise<void>;
}

/** What a raw member does besides shaking hands. An answer with a `code` is an error. */
export interface RawMemberOptions {
  readonly capabilities: Json;
  readonly answer: (method: string, params: Json) => Json;
}

/** Starts such a server. */
export async function startRawMember(era: Era, { capabilities, answer }: RawMemberOptions): Promise<RawMember> {
  const received: { readonly method: string; readonly params: Json }[] = [];
  const listeners = new Map<UpstreamStream, Json>();
  const serverInfo = { name: "raw", version: "1" };
  const upstream = await fakeUpstream((call) => {
    if (call.method === "GET") {
      listeners.set(call.stream(), {});
      return undefined;
    }
    if (call.method !== "POST") return call.replyRaw(200);
    const { id, method = "", params: { _meta, ...params } = {} } = sentMessage(call);
    received.push({ method, params });
    if (id === undefined) return call.replyRaw(202);
    const reply = (result: Json): void => {
      const modern = era === "modern" && !("resultType" in result) ? { resultType: "complete" } : {};
      const body = "code" in result ? { error: result } : { result: { ...modern, ...result } };
      call.reply({ jsonrpc: "2.0", id, ...body }, 200, method === "initialize" ? { "mcp-session-id": "s" } : {});
    };
    if (method === "initialize" && era === "legacy")
      return reply({ protocolVersion: params["protocolVersion"], capabilities, serverInfo });
    if (method === "server/discover" && era === "modern")
      return reply({ supportedVersions: ["2026-07-28"], capabilities, ttlMs: 0, cacheScope: "private" });
    if (method === "subscriptions/listen" && era === "modern") {
      const stream = call.stream();
      const meta = { "io.modelcontextprotocol/subscriptionId": id };
      listeners.set(stream, meta);
      const honoured = { _meta: meta, notifications: params["notifications"] };
      return stream.send({ jsonrpc: "2.0", method: "notifications/subscriptions/acknowledged", params: honoured });
    }
    return reply(answer(method, params));
  });
  return {
    ...upstream,
    era,
    received: (method) => received.filter((one) => one.method === method).map(({ params }) => params),
    notify: async (method, params) => {
      for (const [stream, _meta] of listeners)
        await stream.send({ jsonrpc: "2.0", method, params: { ...params, ...(era === "modern" ? { _meta } : {}) } });
    },
  };
}
