import { newestModern } from "../../src/protocol/revisions.ts";
import { openStream, post, postHeaders, type RawAnswer, type RawStream } from "./raw-http.ts";

/** A request of the modern era with its envelope, and the headers that repeat it. */
export interface ModernRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** The `_meta` members that every modern request has. */
const envelope = {
  "io.modelcontextprotocol/protocolVersion": newestModern,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "by-hand", version: "1.0.0" },
};

/** Makes a request as the era wants it. */
export function modernRequest(
  id: string | number,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
): ModernRequest {
  const name = params["name"] ?? params["uri"];
  return {
    headers: {
      ...postHeaders,
      "mcp-protocol-version": newestModern,
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
    },
    body: { jsonrpc: "2.0", id, method, params: { ...params, _meta: envelope } },
  };
}

/** Posts it and reads the whole answer. */
export async function postModern(url: string, { headers, body }: ModernRequest): Promise<RawAnswer> {
  return post(url, body, headers);
}

/** Posts it and reads the answer event by event. */
export async function streamModern(url: string, { headers, body }: ModernRequest): Promise<RawStream> {
  return openStream(url, { method: "POST", headers, body });
}
