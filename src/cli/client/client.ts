import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

import type { Client, ElicitRequestParams, ElicitResult, FetchLike, Transport } from "@modelcontextprotocol/client";

import { formatDuration, parseDuration } from "../../lib/duration.ts";
import { defaultEndpoint } from "../client-commands.ts";
import { type ExitCodeName, exitCodes } from "../commands.ts";
import { type CliIo, packageVersion } from "../io.ts";
import { printableLine } from "../text-layout.ts";
import { isObject } from "../../lib/is-object.ts";
import { parseHeader, UsageError } from "../define-command.ts";
import { createWatchedFetch } from "./watched-fetch.ts";
import { watchTransport } from "./watched-transport.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

// Long enough for npx to download a package first.
const connectTimeoutMs = 60_000;
// A legacy server on stdio may never answer the probe for the modern era.
const probeTimeoutMs = { http: 30_000, stdio: 10_000 } as const;
const endTimeoutMs = 2_000;
const defaultSilenceMs = 60_000;

/** How a command handles elicitation. */
export interface ElicitationSupport {
  /** Answers a question; without it the client does not declare the capability. */
  readonly answer?: (question: ElicitRequestParams) => Promise<ElicitResult>;
  /** Whether it can also open URLs. */
  readonly opensUrls?: boolean;
}

/** Connects in the newest era that both support, calls `use` with the client, and disconnects; errors become one line and an exit code. */
export async function withClient(
  target: ClientTarget,
  io: Pick<CliIo, "err" | "env">,
  role: ElicitationSupport,
  use: (client: Client) => Promise<number>,
): Promise<number> {
  await using watched = target.type === "http" ? await createWatchedFetch({ ...target, env: io.env }) : undefined;
  const transport = target.type === "stdio" ? await openStdio(target, io) : undefined;
  using silence = transport === undefined ? undefined : watchTransport(transport, target.silenceMs);
  const lost = watched?.lost ?? silence?.lost;
  const orLost = <T>(work: Promise<T>): Promise<T> => (lost === undefined ? work : Promise.race([work, lost]));
  try {
    await using connection = await orLost(connect(target, io, role, transport ?? watched?.fetch));
    silence?.onConnected();
    return await orLost(use(connection.client));
  } catch (error) {
    const { exit, message } = toClientFailure(error, target);
    io.err(`headgate: ${message}\n`);
    return exitCodes[exit].code;
  }
}

interface ClientConnection extends AsyncDisposable {
  readonly client: Client;
}

async function connect(
  target: ClientTarget,
  io: Pick<CliIo, "err">,
  role: ElicitationSupport,
  through: Transport | FetchLike | undefined,
): Promise<ClientConnection> {
  const sdk = await import("@modelcontextprotocol/client");
  const open = async (mode: "auto" | "legacy", transport: Transport): Promise<ClientConnection> => {
    const client = new sdk.Client(
      { name: "headgate", title: "Headgate command line", version: packageVersion() },
      {
        versionNegotiation: { mode, probe: { timeoutMs: probeTimeoutOf(target) } },
        ...(role.answer === undefined
          ? {}
          : {
              capabilities: { elicitation: { form: {}, ...(role.opensUrls === true ? { url: {} } : {}) } },
            }),
      },
    );
    const { answer } = role;
    if (answer !== undefined) {
      client.setRequestHandler("elicitation/create", ({ params }) => answer(params));
    }
    client.setNotificationHandler("notifications/message", ({ params: { level, data } }) => {
      io.err(`${level}: ${printableLine(typeof data === "string" ? data : JSON.stringify(data))}\n`);
    });
    try {
      const timeout = Math.max(connectTimeoutMs, target.silenceMs);
      await withTimeout(timeout, client.connect(transport, { timeout }));
    } catch (error) {
      await transport.close();
      throw error;
    }
    return { client, [Symbol.asyncDispose]: () => endSession(client, transport) };
  };

  if (typeof through === "object") return open("auto", through);
  if (target.type === "stdio") throw new TypeError("a command needs its transport");
  const { url } = target;
  const options = {
    requestInit: { headers: target.headers },
    ...(through === undefined ? {} : { fetch: through }),
  };
  try {
    return await open("auto", new sdk.StreamableHTTPClientTransport(url, options));
  } catch (error) {
    // MCP 2025-11-25, Transports, "Backwards compatibility": these three mean that the server only has HTTP+SSE.
    if (![400, 404, 405].includes(statusOf(error) ?? 0)) throw error;
    try {
      return await open("legacy", new sdk.SSEClientTransport(url, options));
    } catch {
      throw error;
    }
  }
}

/** The transport to a command, which starts when the client connects. */
async function openStdio(
  { command, args }: Extract<ClientTarget, { readonly type: "stdio" }>,
  io: Pick<CliIo, "err">,
): Promise<Transport> {
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const transport = new StdioClientTransport({ command, args: [...args], stderr: "pipe" });
  if (transport.stderr !== null) showLines(transport.stderr as Readable, io);
  return transport;
}

/** Leaves time for the other era. */
function probeTimeoutOf({ type, silenceMs }: ClientTarget): number {
  return type === "stdio" ? Math.min(probeTimeoutMs.stdio, silenceMs / 2) : probeTimeoutMs.http;
}

/** Ends the session on the server and closes the connection. */
async function endSession(client: Client, transport: Transport): Promise<void> {
  const terminate: unknown = Reflect.get(transport, "terminateSession");
  if (typeof terminate === "function") {
    try {
      await withTimeout(endTimeoutMs, Promise.resolve(terminate.call(transport)));
    } catch {
      // The session expires on its own.
    }
  }
  await client.close();
}

function showLines(stream: Readable, io: Pick<CliIo, "err">): void {
  createInterface({ input: stream }).on("line", (line) => io.err(`${printableLine(line)}\n`));
}

/** The result of some work; rejects if it takes longer than this. */
async function withTimeout<Result>(milliseconds: number, work: Promise<Result>): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(Object.assign(new Error("timeout"), { code: "REQUEST_TIMEOUT" }));
  }, milliseconds);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Why a client command failed: its message and exit code. */
interface ClientFailure {
  readonly exit: ExitCodeName;
  readonly message: string;
}

/** Explains an error of the SDK, its transports or the system. */
function toClientFailure(error: unknown, target: ClientTarget): ClientFailure {
  const name = formatTarget(target);
  const status = statusOf(error);
  if (status !== undefined) return toStatusFailure(status, messageInBody(error), name);
  const causes = causesOf(error);
  const codes = causes.flatMap(({ code }) => (code === undefined ? [] : [code]));
  // A numeric code is that of a JSON-RPC error response (JSON-RPC 2.0, section 5.1).
  const [first] = codes;
  if (typeof first === "number") {
    return { exit: "refused", message: `the server returned error ${first}: ${errorMessage(error)}` };
  }
  for (const code of codes) {
    const reason = explanations[String(code)]?.(target);
    if (reason !== undefined) return { exit: "unreachable", message: reason };
  }
  // The SDK prints the issues of its schema library as JSON.
  const isMalformed = causes.some(({ message }) => /\[\s*\{\s*"(?:code|expected)":/u.test(message));
  if (isMalformed) return { exit: "unreachable", message: notMcp(target) ?? name };
  for (const cause of causes) {
    const reason = explanations[cause.name]?.(target);
    if (reason !== undefined) return { exit: "unreachable", message: reason };
  }
  const isSystemError = codes.some((code) => /^(?:E[A-Z]+|UND_ERR_\w+|\w*CERT\w*)$/u.test(String(code)));
  const detail = isSystemError ? codes.at(-1) : causes.at(-1)?.message;
  return isSystemError || causes.some(({ message }) => message === "fetch failed")
    ? { exit: "unreachable", message: `cannot reach ${name}: ${printableLine(String(detail))}` }
    : {
        exit: codes.includes("ERA_NEGOTIATION_FAILED") ? "unreachable" : "failed",
        message: `${name}: ${errorMessage(error)}`,
      };
}

/** The HTTP status in a transport error. */
function statusOf(error: unknown): number | undefined {
  for (const { data, code, name } of causesOf(error)) {
    if (isObject(data) && typeof data["status"] === "number") return data["status"];
    // The HTTP+SSE transport uses the status as its error code.
    if (name === "SseError" && typeof code === "number" && code >= 100) return code;
  }
  return undefined;
}

type Explain = (target: ClientTarget) => string | undefined;

const ended: Explain = (target) =>
  target.type === "stdio"
    ? `${formatTarget(target)} exited before it responded`
    : `${formatTarget(target)} closed the connection before it responded`;

const noSuchHost: Explain = (target) => (target.type === "http" ? `unknown host ${target.url.hostname}` : undefined);

const notMcp: Explain = (target) => {
  const isEndpoint = target.type === "stdio" || /\/(?:mcp|sse)\/?$/u.test(target.url.pathname);
  const hint = isEndpoint ? "" : "; the endpoint of most servers is /mcp";
  return `${formatTarget(target)} responds, but does not speak MCP${hint}`;
};

const notTls: Explain = (target) =>
  target.type === "http"
    ? `what listens at ${formatTarget(target)} does not speak TLS; write http:// instead of https://, or correct the port`
    : undefined;

/** Messages for error codes of the system and the SDK, and for names of errors that have no code. */
const explanations: Readonly<Record<string, Explain>> = {
  ECONNREFUSED: (target) => {
    if (target.type !== "http") return undefined;
    const isDefault = target.socket === undefined && target.url.href === defaultEndpoint;
    const hint = isDefault ? "start a gateway with headgate run" : "start the server, or correct the URL";
    return `nothing is listening at ${formatTarget(target)}; ${hint}`;
  },
  ENOTFOUND: noSuchHost,
  EAI_AGAIN: noSuchHost,
  ENOENT: (target) =>
    target.type === "stdio"
      ? `cannot start \`${target.command}\`: command not found`
      : `there is no socket ${target.socket ?? ""}; start a gateway with listen.unixSocket`,
  EACCES: (target) => (target.type === "stdio" ? `cannot start \`${target.command}\`: permission denied` : undefined),
  EPIPE: ended,
  ECONNRESET: ended,
  UND_ERR_SOCKET: ended,
  UND_ERR_CONNECT_TIMEOUT: (target) => `${formatTarget(target)} does not accept connections`,
  CONNECTION_CLOSED: ended,
  SERVER_SILENT: (target) =>
    `${formatTarget(target)} has not responded to anything for ${formatDuration(target.silenceMs)}; wait longer with --timeout`,
  REQUEST_TIMEOUT: (target) => `${formatTarget(target)} did not respond in time`,
  ERR_SSL_WRONG_VERSION_NUMBER: notTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: notTls,
  CLIENT_HTTP_UNEXPECTED_CONTENT: notMcp,
  SyntaxError: notMcp,
  HTTPParserError: (target) => `what listens at ${formatTarget(target)} does not speak HTTP; check the port`,
};

function toStatusFailure(status: number, detail: string | undefined, name: string): ClientFailure {
  const said = detail === undefined ? "" : `: ${detail}`;
  if (status === 401) {
    const hint = 'pass a token with --header "Authorization: Bearer …"';
    return { exit: "unauthorized", message: `${name} requires authorization (HTTP 401)${said}; ${hint}` };
  }
  if (status === 403) return { exit: "unauthorized", message: `${name} denies access (HTTP 403)${said}` };
  const hint = status === 404 && detail === undefined ? "; the endpoint of most servers is /mcp" : "";
  return { exit: "unreachable", message: `${name} responded with HTTP ${status}${said}${hint}` };
}

const maxShownBody = 500;

/** The message of a JSON-RPC error in the response body, which says more than the status. */
function messageInBody(error: unknown): string | undefined {
  for (const { data } of causesOf(error)) {
    const text = isObject(data) ? data["text"] : undefined;
    if (typeof text !== "string") continue;
    try {
      const body: unknown = JSON.parse(text);
      const inner = isObject(body) ? body["error"] : undefined;
      const message = isObject(inner) ? inner["message"] : undefined;
      if (typeof message === "string") return printableLine(message);
    } catch {
      // A short line is an error message; anything longer is probably an HTML page of a proxy.
      if (text.length <= maxShownBody && /^[^<\n]+\n?$/u.test(text)) return printableLine(text);
    }
  }
  return undefined;
}

interface ErrorCause {
  readonly name: string;
  readonly code: string | number | undefined;
  readonly data: unknown;
  readonly message: string;
}

/** An error and its causes, outermost first. */
function causesOf(error: unknown): readonly ErrorCause[] {
  const links: ErrorCause[] = [];
  for (let link = error; link instanceof Error && links.length < 8; link = link.cause) {
    const code: unknown = Reflect.get(link, "code");
    links.push({
      name: link.name,
      code: typeof code === "string" || typeof code === "number" ? code : undefined,
      data: Reflect.get(link, "data"),
      message: link.message,
    });
  }
  return links;
}

function errorMessage(error: unknown): string {
  return printableLine(thrownMessage(error));
}

/** The server that a client command connects to. */
export type ClientTarget =
  | {
      readonly type: "http";
      readonly url: URL;
      readonly headers: Readonly<Record<string, string>>;
      /** Connect to this Unix socket instead of the URL's host. */
      readonly socket: string | undefined;
      /** How long the server may leave every request unanswered. */
      readonly silenceMs: number;
    }
  | {
      readonly type: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly silenceMs: number;
    };

/** The arguments that name a server. */
export interface TargetArguments {
  readonly url?: string | undefined;
  readonly header?: readonly string[] | undefined;
  readonly socket?: string | undefined;
  readonly timeout?: string | undefined;
  /** A program with its arguments. */
  readonly program: readonly string[] | undefined;
}

/** The parsed arguments of a command that talks to a server. */
export interface TargetWords {
  readonly values: Omit<TargetArguments, "program">;
  readonly positionals: readonly string[];
  readonly program: readonly string[] | undefined;
}

/** The server of a command, whose URL is the first of its words or an option, and the other words. */
export function readTarget({ values, positionals, program }: TargetWords): {
  readonly target: ClientTarget;
  readonly rest: readonly string[];
} {
  const [first = "", ...rest] = positionals;
  if (!/^https?:/iu.test(first)) return { target: parseTarget({ ...values, program }), rest: positionals };
  if (values.url !== undefined) throw new UsageError("the URL is given twice; leave out --url, or the first word");
  return { target: parseTarget({ ...values, url: first, program }), rest };
}

/** The server that the arguments name; the local gateway by default. */
export function parseTarget({
  url: text,
  header: headers = [],
  socket,
  timeout,
  program,
}: TargetArguments): ClientTarget {
  const silenceMs = timeout === undefined ? defaultSilenceMs : parseDuration(timeout);
  if (silenceMs === undefined || silenceMs === 0)
    throw new UsageError(`\`${timeout ?? ""}\` is not a duration such as \`30s\` or \`5m\``);
  if (program !== undefined) {
    const [command, ...args] = program;
    if (command === undefined || command === "") throw new UsageError("expected a command after --");
    if (text !== undefined) throw new UsageError("a URL and a command cannot be combined");
    if (headers.length > 0) throw new UsageError("--header needs a URL, not a command");
    if (socket !== undefined) throw new UsageError("--socket and a command cannot be combined");
    return { type: "stdio", command, args, silenceMs };
  }
  const url = URL.parse(text ?? (socket === undefined ? defaultEndpoint : socketEndpoint));
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new UsageError(`\`${text ?? ""}\` is not an http or https URL${hostHint(text ?? "")}`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new UsageError("the URL contains credentials; pass them with --header");
  }
  return {
    type: "http",
    url,
    headers: Object.fromEntries(headers.map((line) => parseHeader("--header", line))),
    socket,
    silenceMs,
  };
}

/** What to say about a word in the place of a URL, which may also be a verb or a command to start. */
export function notServer(word: string, verb?: string): UsageError {
  const verbs = verb === undefined ? "" : `; the only verb is \`${verb}\``;
  const isProgram = !word.includes("://") && hostHint(word) === "";
  const hint = isProgram ? "; put `--` before a command to start" : hostHint(word);
  return new UsageError(`\`${word}\` is not an http or https URL${verbs}${hint}`);
}

/** What to write for a host without a scheme. */
function hostHint(word: string): string {
  const isFile = /\.(?:[cm]?[jt]s|py|rb|sh)$/u.test(word);
  const isHost = /^(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+:\d+|\[[\da-f:]+\])(?::\d+)?(?:\/|$)/iu.test(word);
  return isHost && !isFile ? `; write \`http://${word}\`` : "";
}

/** Behind a socket there is no other host. */
const socketEndpoint = "http://localhost/mcp";

/** The first line about a server: its name, its location, and the negotiated revision. */
export function serverHeading(client: Client, target: ClientTarget): string {
  const { name, version } = client.getServerVersion() ?? { name: "unnamed server", version: "" };
  const revision = client.getNegotiatedProtocolVersion() ?? "unknown";
  return `${printableLine(`${name} ${version}`)} at ${formatTarget(target)}, MCP ${revision}`;
}

/** A server as it is shown in messages. */
export function formatTarget(target: ClientTarget): string {
  if (target.type === "http" && target.socket !== undefined) return `${target.socket} (${target.url.pathname})`;
  return target.type === "http" ? target.url.href : `\`${[target.command, ...target.args].join(" ")}\``;
}
