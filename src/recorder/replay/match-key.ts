import { canonicalText } from "./canonical.ts";

/** Members of `_meta` that differ from call to call, or say who calls and not what is asked for. */
const volatileMeta: ReadonlySet<string> = new Set([
  "progressToken",
  "traceparent",
  "tracestate",
  "baggage",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/logLevel",
]);

/** Parameters without what changes from call to call; undefined where nothing is left. */
export function stableParams(params: unknown): unknown {
  if (!isObject(params)) return params;
  const steady: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(params)) {
    if (name === "_meta" && isObject(value)) {
      const meta = Object.entries(value).filter(([key]) => !volatileMeta.has(key));
      if (meta.length > 0) steady[name] = Object.fromEntries(meta);
    } else if (!(name === "arguments" && isObject(value) && Object.keys(value).length === 0)) {
      // No arguments and an empty set of them ask for the same.
      steady[name] = value;
    }
  }
  return Object.keys(steady).length === 0 ? undefined : steady;
}

/** What a request asks for, whatever its id, its token, its revision and the spelling of its JSON (SC-070). */
export function matchKey(method: string, params: unknown): string {
  const steady = stableParams(params);
  return steady === undefined ? method : `${method} ${canonicalText(steady)}`;
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
