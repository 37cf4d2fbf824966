import { defaultEndpoint } from "./commands.ts";
import { formatTarget, type ClientTarget } from "./client-target.ts";
import type { ExitCodeName } from "./exit-codes.ts";
import { isJsonObject } from "./schema-types.ts";
import { printableLine } from "./text-layout.ts";

/** Why a client command could not do its work: what to say, and what the exit code is to mean. */
export interface ClientFailure {
  readonly exit: ExitCodeName;
  readonly message: string;
}

/** Finds out what an error of the SDK, of its transports or of the system means for the person who asked. */
export function toClientFailure(error: unknown, target: ClientTarget): ClientFailure {
  const name = formatTarget(target);
  const status = statusOf(error);
  if (status !== undefined) return toStatusFailure(status, messageInBody(error), name);
  const codes = causesOf(error).flatMap(({ code }) => (code === undefined ? [] : [code]));
  // The error of the other end, by its number (JSON-RPC 2.0, section 5.1).
  const [first] = codes;
  if (typeof first === "number") {
    return { exit: "refused", message: `the server answered with error ${first}: ${errorMessage(error)}` };
  }
  for (const code of codes) {
    const reason = explanations[String(code)]?.(target);
    if (reason !== undefined) return { exit: "unreachable", message: reason };
  }
  const isOfSystem = codes.some((code) => /^(?:E[A-Z]+|UND_ERR_\w+|\w*CERT\w*)$/u.test(String(code)));
  const detail = codes.at(-1);
  return isOfSystem
    ? { exit: "unreachable", message: `cannot reach ${name}: ${String(detail)}` }
    : { exit: isOfNegotiation(codes) ? "unreachable" : "usage", message: `${name}: ${errorMessage(error)}` };
}

/** The HTTP status that an error of a transport carries. */
export function statusOf(error: unknown): number | undefined {
  for (const { data, code, name } of causesOf(error)) {
    if (isJsonObject(data) && typeof data["status"] === "number") return data["status"];
    // The transport of HTTP+SSE has the status as its code.
    if (name === "SseError" && typeof code === "number" && code >= 100) return code;
  }
  return undefined;
}

type Explain = (target: ClientTarget) => string | undefined;

const ended: Explain = (target) =>
  target.type === "stdio"
    ? `${formatTarget(target)} ended before it answered`
    : `${formatTarget(target)} closed the connection before it answered`;

const noSuchHost: Explain = (target) =>
  target.type === "http" ? `there is no host ${target.url.hostname}` : undefined;

/** What is behind a code of the system or of the SDK, where there is more to say than the code. */
const explanations: Readonly<Record<string, Explain>> = {
  ECONNREFUSED: (target) => {
    if (target.type !== "http") return undefined;
    const hint = target.url.href === defaultEndpoint ? "; headgate run starts a gateway there" : "";
    return `nothing listens at ${target.url.href}${hint}`;
  },
  ENOTFOUND: noSuchHost,
  EAI_AGAIN: noSuchHost,
  ENOENT: (target) =>
    target.type === "stdio" ? `cannot start \`${target.command}\`: there is no such command` : undefined,
  EACCES: (target) =>
    target.type === "stdio" ? `cannot start \`${target.command}\`: it may not be executed` : undefined,
  EPIPE: ended,
  ECONNRESET: ended,
  UND_ERR_SOCKET: ended,
  UND_ERR_CONNECT_TIMEOUT: (target) => `${formatTarget(target)} takes no connection`,
  CONNECTION_CLOSED: ended,
  REQUEST_TIMEOUT: (target) => `${formatTarget(target)} did not answer in time`,
  CLIENT_HTTP_UNEXPECTED_CONTENT: (target) => `${formatTarget(target)} answers, but not in MCP`,
};

function toStatusFailure(status: number, detail: string | undefined, name: string): ClientFailure {
  const said = detail === undefined ? "" : `: ${detail}`;
  if (status === 401) {
    const hint = 'give it with --header "Authorization: Bearer …"';
    return { exit: "unauthorized", message: `${name} wants authorization (HTTP 401)${said}; ${hint}` };
  }
  if (status === 403) return { exit: "unauthorized", message: `${name} refuses access (HTTP 403)${said}` };
  const hint = status === 404 && detail === undefined ? "; most servers have their endpoint at /mcp" : "";
  return { exit: "unreachable", message: `${name} answered with HTTP ${status}${said}${hint}` };
}

/** The message of a JSON-RPC error in the body of a refusal, which says more than its status. */
function messageInBody(error: unknown): string | undefined {
  for (const { data } of causesOf(error)) {
    const text = isJsonObject(data) ? data["text"] : undefined;
    if (typeof text !== "string") continue;
    try {
      const body: unknown = JSON.parse(text);
      const inner = isJsonObject(body) ? body["error"] : undefined;
      const message = isJsonObject(inner) ? inner["message"] : undefined;
      if (typeof message === "string") return printableLine(message);
    } catch {
      // A page of a proxy, most likely: it says nothing that fits on a line.
    }
  }
  return undefined;
}

interface ErrorCause {
  readonly name: string;
  readonly code: string | number | undefined;
  readonly data: unknown;
}

/** An error and what caused it, from the outside in. */
function causesOf(error: unknown): readonly ErrorCause[] {
  const links: ErrorCause[] = [];
  for (let link = error; link instanceof Error && links.length < 8; link = link.cause) {
    const code: unknown = Reflect.get(link, "code");
    links.push({
      name: link.name,
      code: typeof code === "string" || typeof code === "number" ? code : undefined,
      data: Reflect.get(link, "data"),
    });
  }
  return links;
}

function isOfNegotiation(codes: readonly (string | number)[]): boolean {
  return codes.includes("ERA_NEGOTIATION_FAILED");
}

function errorMessage(error: unknown): string {
  return printableLine(error instanceof Error ? error.message : String(error));
}
