import type { Frame } from "../../recorder/contract.ts";
import type { OperationFrames } from "./queries/traffic-queries.ts";

/** An operation without what its messages say, for callers without the right to read that. */
export function withoutContent({ operation, frames }: OperationFrames): OperationFrames {
  const bare = Object.entries(frames).map(([id, own]) => [id, own.map(withoutOwnContent)] as const);
  return { operation, frames: Object.fromEntries(bare) };
}

function withoutOwnContent({ body: _body, ...frame }: Frame): Frame {
  const { context } = frame;
  if (context?.http === undefined) return frame;
  // These headers repeat arguments (MCP 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters").
  const headers = Object.entries(context.http.headers).filter(([name]) => !name.startsWith("mcp-param-"));
  return { ...frame, context: { ...context, http: { ...context.http, headers: Object.fromEntries(headers) } } };
}
