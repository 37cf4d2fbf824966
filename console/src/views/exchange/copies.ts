import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";

/** What a copy is made of. */
export interface CopySource {
  readonly record: ExchangeRecord;
  /** The request as the client sent it, as JSON. */
  readonly request: string;
  /** The answer that the client got; undefined without one. */
  readonly answer: string | undefined;
  /** The endpoint of the route. */
  readonly url: string;
}

interface Request {
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: unknown };
}

/** A word of a POSIX shell. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The call as a command; undefined for other methods than tool calls. */
export function asHeadgateCall({ request, url }: CopySource): string | undefined {
  const { method, params } = parsed(request);
  if (method !== "tools/call" || params?.name === undefined) return undefined;
  const given = JSON.stringify(params.arguments ?? {});
  return `headgate call ${shellQuoted(params.name)} --args ${shellQuoted(given)} --url ${shellQuoted(url)}`;
}

/** The request for curl. A session of the past cannot be used again, so its place is left open. */
export function asCurl({ record, request, url }: CopySource): string {
  const headers = [
    "content-type: application/json",
    "accept: application/json, text/event-stream",
    `mcp-protocol-version: ${record.revision}`,
    ...(record.session === undefined ? [] : ["mcp-session-id: SESSION"]),
  ];
  const lines = headers.map((header) => `  -H ${shellQuoted(header)} \\`);
  return [`curl ${shellQuoted(url)} \\`, ...lines, `  -d ${shellQuoted(request)}`].join("\n");
}

/** A test that makes the same call and expects the same result. */
export function asTest({ record, request, answer, url }: CopySource): string {
  const { params } = parsed(request);
  const result = answer === undefined ? undefined : (JSON.parse(answer) as { readonly result?: unknown }).result;
  const call = JSON.stringify(
    { name: params?.name ?? record.target, arguments: params?.arguments ?? {} },
    undefined,
    2,
  );
  return `import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";

it(${JSON.stringify(`answers ${record.target ?? record.method} as recorded`)}, async () => {
  const client = new Client({ name: "recorded", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})));
  const result = await client.callTool(${call.replaceAll("\n", "\n  ")});
  expect(result).toMatchObject(${(JSON.stringify(result ?? {}, undefined, 2) ?? "{}").replaceAll("\n", "\n  ")});
  await client.close();
});
`;
}

function parsed(request: string): Request {
  try {
    return JSON.parse(request) as Request;
  } catch {
    return {};
  }
}
