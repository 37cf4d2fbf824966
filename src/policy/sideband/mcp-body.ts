import { memberSource, memberString } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import { objectText } from "./json-text.ts";

/**
 * The body that goes upstream when a policy changed that of an MCP request: `jsonrpc`, `id` and `method` of the
 * original, and the policy's `params` (PA-165). Undefined when the policy's body is no JSON-RPC 2.0 request (PA-166).
 */
export function rebuildMcpBody(original: Buffer, changed: string): Buffer | undefined {
  const source = outlined(original);
  const policy = outlined(Buffer.from(changed));
  if (source === undefined || policy === undefined || policy.outline.duplicateAt >= 0) return undefined;
  if (memberString(policy, "jsonrpc") !== "2.0" || memberString(policy, "method") === undefined)
    return undefined;
  const id = memberSource(source, "id");
  const method = memberSource(source, "method");
  const params = memberSource(policy, "params");
  const text = objectText([
    ["jsonrpc", '"2.0"'],
    id === undefined ? undefined : ["id", id],
    method === undefined ? undefined : ["method", method],
    params === undefined ? undefined : ["params", params],
  ]);
  return Buffer.from(text);
}

function outlined(bytes: Buffer) {
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || bytes[outline.start] !== 0x7b) return undefined;
  return skipSpace(bytes, outline.end, bytes.length) < bytes.length ? undefined : { bytes, outline };
}
