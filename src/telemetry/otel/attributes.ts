import type { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { memberBoolean, memberInteger, memberString, memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { attributes, callerFaults, executeTool, otherName, timeoutErrorType, toolErrorType } from "../semconv.ts";
import type { Destination, RedactText } from "../trace-context.ts";

/** Attribute values by name. */
export type AttributeValues = Readonly<Record<string, string | number>>;

/** The role of the gateway: `server` for a received message, `client` for one it sends. */
export type SpanRole = "server" | "client";

/** The name and attributes of a span when it starts. */
export interface SpanDescription {
  readonly name: string;
  /** For span and metrics, so the number of different values is limited. */
  readonly metricAttributes: AttributeValues;
  /** For the span only. */
  readonly spanAttributes: AttributeValues;
}

/** The attributes and status of a span when it ends. */
export interface SpanEnding {
  readonly attributes: AttributeValues;
  /** The error message of a failed span. */
  readonly failure: string | undefined;
}

/** Longer texts are cut off. */
const maxLength = 256;
const gatewayCode = /^[a-z_]{1,40}$/u;

/** Makes a function that limits the number of different names; further ones become `_OTHER`. */
export function createNameLimit(most: number): (name: string) => string {
  const known = new Set<string>();
  return (name) => {
    if (known.has(name)) return name;
    if (known.size >= most) return otherName;
    known.add(name);
    return name;
  };
}

/** Makes the functions that describe the spans of one route by the semantic conventions for MCP. */
export function createSpanDescriber(route: string, redact: RedactText, bound: (name: string) => string) {
  const clean = (text: string): string => redact(text).slice(0, maxLength);

  function describe(
    exchange: Exchange,
    side: SpanRole,
    method: string,
    destination: Destination | undefined,
  ): SpanDescription {
    const { message, session, transport } = exchange;
    const facts = methodFacts(method);
    const methodName = facts === undefined ? otherName : method;
    const target = facts?.target;
    const named = target === "tool" || target === "prompt" ? memberString(message, "params.name") : undefined;
    const shown = named === undefined ? undefined : clean(named);
    const nameOf = (name: string) =>
      target === "tool"
        ? { [attributes.toolName]: name, [attributes.operationName]: executeTool }
        : { [attributes.promptName]: name };
    const uri = memberString(message, "params.uri");
    const common = {
      [attributes.methodName]: methodName,
      [attributes.protocolVersion]: exchange.revision,
      [attributes.route]: route,
      ...(side === "server" ? networkOf(transport.type) : destinationOf(destination)),
    };
    return {
      name: shown === undefined ? methodName : `${methodName} ${shown}`,
      metricAttributes: { ...common, ...(shown === undefined ? {} : nameOf(bound(shown))) },
      spanAttributes: {
        ...(shown === undefined ? {} : nameOf(shown)),
        [attributes.methodName]: facts === undefined ? clean(method) : method,
        [attributes.exchange]: exchange.id,
        ...(exchange.tracking.upstream === undefined
          ? {}
          : { [attributes.upstream]: exchange.tracking.upstream.member }),
        ...(message.id === undefined ? {} : { [attributes.requestId]: clean(message.id.key.slice(2)) }),
        ...(session === undefined ? {} : { [attributes.sessionId]: session.label }),
        ...(uri === undefined ? {} : { [attributes.resourceUri]: clean(withoutQuery(uri)) }),
        ...(side === "server" && transport.type === "http" && transport.peer !== undefined
          ? { [attributes.clientAddress]: transport.peer }
          : {}),
      },
    };
  }

  /** For a message that was answered, was accepted, or failed. */
  function conclude(side: SpanRole, answer: Message | undefined, error: GatewayError | undefined): SpanEnding {
    if (error !== undefined) return concludeFailure(side, error, clean);
    if (answer?.kind === "error") return concludeError(side, answer);
    const isToolError = answer?.kind === "result" && memberBoolean(answer, "result.isError") === true;
    return isToolError
      ? { attributes: { [attributes.errorType]: toolErrorType }, failure: "the tool reported an error" }
      : { attributes: {}, failure: undefined };
  }

  function concludeError(side: SpanRole, answer: Message): SpanEnding {
    const code = memberInteger(answer, "error.code") ?? 0;
    const own = ownCodeOf(answer);
    const values = {
      [attributes.statusCode]: String(code),
      ...(own === undefined ? {} : { [attributes.errorCode]: own }),
    };
    // An error of the caller is a failure of the client span only.
    if (side === "server" && callerFaults.has(code)) return { attributes: values, failure: undefined };
    return {
      attributes: { ...values, [attributes.errorType]: String(code) },
      failure: clean(memberString(answer, "error.message") ?? ""),
    };
  }

  return { describe, conclude };
}

function concludeFailure(side: SpanRole, { code, message }: GatewayError, clean: RedactText): SpanEnding {
  // A cancelled request is not a failure.
  if (code === "cancelled" && side === "server") return { attributes: {}, failure: undefined };
  const type = code === "upstream_timeout" ? timeoutErrorType : code;
  return {
    attributes: { [attributes.errorType]: type, [attributes.errorCode]: code },
    failure: clean(message),
  };
}

/** The code of an error that the gateway itself made. */
function ownCodeOf(answer: Message): string | undefined {
  const data = memberValue(answer, "error.data");
  if (typeof data !== "object" || data === null || Reflect.get(data, "origin") !== "gateway") return undefined;
  const code: unknown = Reflect.get(data, "code");
  return typeof code === "string" && gatewayCode.test(code) ? code : undefined;
}

/** The query of a URI may hold credentials. */
function withoutQuery(uri: string): string {
  return uri.replace(/[?#].*$/su, "");
}

function networkOf(transport: "http" | "sse" | "stdio" | "in-process"): AttributeValues {
  if (transport === "in-process") return {};
  if (transport === "stdio") return { [attributes.networkTransport]: "pipe" };
  return { [attributes.networkTransport]: "tcp", [attributes.networkProtocol]: "http" };
}

/** Parsed once per upstream. */
const destinations = new WeakMap<Destination, AttributeValues>();

/** The network attributes of a destination. */
export function destinationOf(destination: Destination | undefined): AttributeValues {
  if (destination === undefined) return {};
  let known = destinations.get(destination);
  if (known === undefined) {
    known = addressOf(destination);
    destinations.set(destination, known);
  }
  return known;
}

function addressOf({ transport, origin }: Destination): AttributeValues {
  if (origin === undefined) return networkOf(transport);
  const { hostname, port, protocol } = new URL(origin);
  return {
    ...networkOf(transport),
    [attributes.serverAddress]: hostname,
    [attributes.serverPort]: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}
