import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { inexactNumbers, parseExact } from "../../json-text.ts";

/** What a copy is made of. */
export interface CopySource {
  readonly record: ExchangeRecord;
  /** The request as the client sent it, as JSON. */
  readonly request: string;
  /** The answer that the client got; undefined without one. */
  readonly answer: string | undefined;
  /** The headers of its HTTP request that may be stored. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The endpoint of the route. */
  readonly url: string;
  /** The command that starts Headgate for the user; `headgate` unless told. */
  readonly ownCommand?: string | undefined;
}

interface Request {
  readonly method?: string;
  readonly params?: { readonly name?: unknown; readonly uri?: unknown; readonly arguments?: unknown };
}

/** A word of a POSIX shell. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The environment variable with the credentials for the copied call. Credentials of recorded callers are never stored. */
const credentials = "HEADGATE_TOKEN";

function needsCredentials({ record }: CopySource): boolean {
  return record.principal !== "anonymous";
}

/** A header with the credentials, for a shell. */
function credentialsHeader(source: CopySource): string {
  return needsCredentials(source) ? `-H "authorization: Bearer $${credentials}" ` : "";
}

/** The call as a command; undefined for other methods than tool calls, and for names that the command takes for options. */
export function asHeadgateCall(source: CopySource): string | undefined {
  const { request, url, ownCommand = "headgate" } = source;
  const { method, params } = parsed(request);
  if (method !== "tools/call" || typeof params?.name !== "string" || params.name.startsWith("-")) return undefined;
  const given = JSON.stringify(params.arguments ?? {});
  return `${ownCommand} call ${shellQuoted(params.name)} ${credentialsHeader(source)}--args ${shellQuoted(given)} --url ${shellQuoted(url)}`;
}

/** The request for curl. A session of the past cannot be used again, so a request that had one opens another first. */
export function asCurl(source: CopySource): string {
  const { record, request, url, headers = {} } = source;
  const own = credentialsHeader(source);
  const { method = record.method, params } = parsed(request);
  const name = params?.name ?? params?.uri;
  // A modern request repeats parts of itself in headers; they are recorded as the client sent them.
  const mirrored = Object.entries(headers).filter(([header]) => header.startsWith("mcp-") && !ofSession.has(header));
  const computed = [["mcp-method", method], ...(typeof name === "string" ? [["mcp-name", name]] : [])] as const;
  const version = ["mcp-protocol-version", record.revision] as const;
  if (record.session === undefined || method === "initialize")
    return command(url, [version, ...(mirrored.length > 0 ? mirrored : computed)], shellQuoted(request), own);
  const session = `"mcp-session-id: $SESSION"`;
  const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":${JSON.stringify(record.revision)},"capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}`;
  const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`;
  return [
    `SESSION=$(${command(url, [], shellQuoted(initialize), `-si ${own}`)} | awk 'tolower($1) == "mcp-session-id:" { print $2 }' | tr -d '\\r')`,
    command(url, [version], shellQuoted(initialized), `-s ${own}-H ${session} `),
    command(url, [version], shellQuoted(request), `${own}-H ${session} `),
  ].join("\n");
}

/** Headers that stand in the command already, or belong to the session of the past. */
const ofSession: ReadonlySet<string> = new Set(["mcp-protocol-version", "mcp-session-id"]);

function command(url: string, headers: readonly (readonly string[])[], body: string, options = ""): string {
  const all = [["content-type", "application/json"], ["accept", "application/json, text/event-stream"], ...headers];
  const lines = all.map(([name = "", value = ""]) => `  -H ${shellQuoted(`${name}: ${value}`)} \\`);
  return [`curl ${options}${shellQuoted(url)} \\`, ...lines, `  -d ${body}`].join("\n");
}

const ownHeaders = `, {
    requestInit: { headers: { authorization: \`Bearer \${process.env.${credentials}}\` } },
  }`;

/** A test that makes the same call and expects the same result. */
export function asTest(source: CopySource): string {
  const { record, request, answer, url } = source;
  const { params } = parsed(request);
  const { result } = parsed(answer ?? "") as { readonly result?: Readonly<Record<string, unknown>> };
  // What a tool says; the rest of a result is between gateway and client, and differs between the eras.
  const { content, structuredContent, isError } = result ?? {};
  const expected = JSON.stringify({ content, structuredContent, isError }, undefined, 2);
  const lost = [...inexactNumbers(request), ...inexactNumbers(answer ?? "")];
  const note =
    lost.length === 0 ? "" : `  // JavaScript cannot hold ${lost.join(", ")}: this sends or expects other digits.\n`;
  const call = JSON.stringify(
    { name: params?.name ?? record.target, arguments: params?.arguments ?? {} },
    undefined,
    2,
  );
  return `import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";

it(${JSON.stringify(`answers ${record.target ?? record.method} as recorded`)}, async () => {
${note}  const client = new Client({ name: "recorded", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})${needsCredentials(source) ? ownHeaders : ""}));
  const result = await client.callTool(${call.replaceAll("\n", "\n  ")});
  expect(result).toMatchObject(${expected.replaceAll("\n", "\n  ")});
  await client.close();
});
`;
}

function parsed(request: string): Request {
  try {
    return parseExact(request) as Request;
  } catch {
    return {};
  }
}
