import { Cancellation } from "../../core/cancellation.ts";
import { createExchange, type Exchange, withMessage } from "../../core/exchange.ts";
import type { Handler, Interceptor, Preparation, Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { createRequest, withReplacements } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { type Federation, isFor, skillsMethod, subscribedUris } from "../../federation/federation.ts";
import { isOfUpstream } from "../../federation/router.ts";
import { createToolIndexes, type ListedTool } from "../../federation/tool-search.ts";
import { isObject } from "../../lib/is-object.ts";
import { isPromise } from "../../lib/is-promise.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import {
  memberInteger,
  memberSource,
  membersOf,
  memberString,
  memberType,
  memberValue,
} from "../../protocol/json/read.ts";
import { idFrom, type Message, type RequestMessage } from "../../protocol/message.ts";
import { revisions } from "../../protocol/revisions.ts";

const searchName = "search_tools";
const callName = "call_tool";
const maxFound = 50;
const maxPages = 100;
const degradedKey = "headgate/degraded";

interface ReadTools {
  readonly tools: readonly ListedTool[];
  readonly degraded: readonly unknown[];
}

/** What clients list instead of all tools. */
const offered = [
  {
    name: searchName,
    description: `Finds tools by words and returns their definitions. Call what it finds with ${callName}.`,
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", description: "What the tool should do." },
        limit: { type: "integer", minimum: 1, maximum: maxFound, default: 5 },
      },
      required: ["query"],
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: callName,
    description: `Calls a tool that ${searchName} has found.`,
    inputSchema: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { type: "object" } },
      required: ["name"],
    },
  },
] as const;

/**
 * Creates the step behind views with `discovery: search`: clients list two tools, one that finds others and one that
 * calls them. What is found is what the caller may see, because the list passes everything behind this step; a call
 * continues as a call of the real tool, so that it is evaluated, limited and recorded as such.
 */
export function createToolDiscovery(federation: Federation): Interceptor {
  const indexOf = createToolIndexes();
  let requests = 0;

  /** All tools that the caller may see, and which servers the list lacks. */
  async function readTools(next: Handler, exchange: Exchange): Promise<ReadTools> {
    const meta = exchange.era === "modern" ? memberSource(exchange.message, "params._meta") : undefined;
    const tools: ListedTool[] = [];
    const missing = new Map<string, unknown>();
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const members = [
        ...(cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`]),
        ...(meta === undefined ? [] : [`"_meta":${meta}`]),
      ];
      const message = createRequest(idFrom(`headgate-search-${++requests}`), "tools/list", `{${members.join(",")}}`);
      const own = createExchange({
        ...exchange,
        id: `${exchange.id}.s${requests}`,
        message,
        parent: exchange,
        cancellation: new Cancellation(),
        reply: undefined,
      });
      const { message: answer } = await next(own);
      if (answer?.kind !== "result") throw new GatewayError("upstream_unreachable", "the tools could not be listed");
      const listed: unknown = memberValue(answer, "result.tools");
      if (Array.isArray(listed)) for (const tool of listed) if (isTool(tool)) tools.push(tool);
      for (const degraded of degradedIn(answer)) missing.set(JSON.stringify(degraded), degraded);
      cursor = memberString(answer, "result.nextCursor");
      if (cursor === undefined) break;
    }
    return { tools, degraded: [...missing.values()] };
  }

  async function search(next: Handler, exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { query, limit } = Object(memberValue(message, "params.arguments")) as Readonly<Record<string, unknown>>;
    if (typeof query !== "string") return invalid(message, `${searchName} needs a text in \`query\``);
    const count = typeof limit === "number" && limit >= 1 ? Math.min(Math.floor(limit), maxFound) : 5;
    const all = await readTools(next, exchange);
    const found = indexOf(all.tools).search(query, count);
    // What a model needs for a call; anything more would only fill its context.
    const tools = found.map(({ name, title, description, inputSchema }) => ({ name, title, description, inputSchema }));
    const modern = exchange.era === "modern" ? { resultType: "complete" } : {};
    const content = [{ type: "text", text: JSON.stringify(tools) }];
    const meta = all.degraded.length === 0 ? {} : { _meta: { [degradedKey]: all.degraded } };
    const result = { ...modern, content, structuredContent: { tools }, ...meta };
    return { message: resultMessage(message.id, JSON.stringify(result)) };
  }

  async function list(next: Handler, exchange: Exchange): Promise<Reply> {
    const reply = await next(exchange);
    if (reply.message?.kind !== "result") return reply;
    const { nextCursor: _cursor, ...result } = Object(memberValue(reply.message, "result")) as Readonly<
      Record<string, unknown>
    >;
    return { ...reply, message: resultMessage(reply.message.id, JSON.stringify({ ...result, tools: offered })) };
  }

  function call(next: Handler, exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const given = spanOf(message.outline, "params.arguments");
    const members =
      given === undefined || memberType(message, "params.arguments") !== "object"
        ? []
        : [...membersOf(message.bytes, given)];
    const nameAt = members.find((member) => member.name === "name")?.value;
    const argsAt = members.find((member) => member.name === "arguments")?.value;
    const name = nameAt === undefined ? undefined : sourceAt(message, nameAt);
    const args = argsAt === undefined ? "{}" : sourceAt(message, argsAt);
    const nameMember = spanOf(message.outline, "params.name");
    if (given === undefined || nameMember === undefined || name?.startsWith('"') !== true || !args.startsWith("{"))
      return Promise.resolve(
        invalid(message, `${callName} needs the \`name\` of a tool and an object of \`arguments\``),
      );
    // The arguments stay as the client wrote them.
    const real = withReplacements(message, [
      { span: nameMember, bytes: Buffer.from(name) },
      { span: given, bytes: Buffer.from(args) },
    ]);
    const called = memberString(real, "params.name");
    if (called !== undefined) exchange.tracking.calledTool = called;
    return next(withMessage(exchange, real));
  }

  return (next) => (exchange) => {
    const { message, direction } = exchange;
    if (direction !== "client-to-server" || message.kind !== "request") return next(exchange);
    const isList = message.method === "tools/list";
    if (!isList && message.method !== "tools/call") return next(exchange);
    if (federation.viewOf(exchange)?.discovery !== "search") return next(exchange);
    if (isList) return list(next, exchange);
    const name = memberString(message, "params.name");
    if (name === searchName) return search(next, exchange, message);
    return name === callName ? call(next, exchange, message) : next(exchange);
  };
}

function sourceAt({ bytes }: RequestMessage, { start, end }: Span): string {
  return bytes.toString("utf8", start, end);
}

/** Which servers a list lacks, or whose earlier list it shows. */
function degradedIn(list: Message): readonly unknown[] {
  const meta: unknown = memberValue(list, "result._meta");
  const degraded: unknown = isObject(meta) ? meta[degradedKey] : undefined;
  return Array.isArray(degraded) ? degraded : [];
}

function isTool(value: unknown): value is ListedTool {
  return isObject(value) && typeof value["name"] === "string";
}

function invalid({ id }: RequestMessage, problem: string): Reply {
  return { message: errorMessage(id, { code: -32602, message: problem }) };
}

type Target = NonNullable<Exchange["tracking"]["upstream"]>;

/**
 * Creates the step that finds out which server of a federation a request is for, before anything decides about it: policy,
 * recordings and telemetry see the server and its own name as well as the name that the client used. After steps that can
 * change a message, it runs again, and resolves the name again only if that has changed.
 */
export function createMemberResolution(federation: Federation): Preparation {
  /** Messages that belong to no server, so they need no second lookup. */
  const unknown = new WeakSet<Message>();

  /** Whether the target is known from before, or nothing is looked up for this message. */
  const isResolved = ({ tracking, message, direction }: Exchange): boolean => {
    if (direction !== "client-to-server") return true;
    if (message.method === "subscriptions/listen") return false;
    return tracking.upstream === undefined ? unknown.has(message) : isFor(tracking.upstream, message);
  };
  const setTarget = (exchange: Exchange, target: Target | undefined): void => {
    if (target === undefined) unknown.add(exchange.message);
    exchange.tracking.upstream = target === undefined ? undefined : resolved(exchange, target);
  };
  const otherwise: Interceptor = (next) => {
    const resolve = (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      const [target, another] = targets;
      if (another !== undefined)
        return exchange.message.method === skillsMethod
          ? joinSkills(federation, next, exchange, targets)
          : tryInTurn(exchange, targets);
      setTarget(exchange, target);
      return next(exchange);
    };
    /** No server has listed the URI: each server that may have it is asked, and the policy decides for each. */
    const tryInTurn = async (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      let reply: Reply | undefined;
      let failure: GatewayError | undefined;
      for (const target of targets) {
        exchange.tracking.upstream = resolved(exchange, target);
        try {
          reply = await next(exchange);
        } catch (error) {
          // A server that is down must not keep the others from answering.
          failure = GatewayError.from(error);
          if (!isOfUpstream(failure)) throw failure;
          continue;
        }
        if (!isNotFound(exchange, reply)) return reply;
      }
      if (failure !== undefined) throw failure;
      return reply ?? next(exchange);
    };
    const resolveSubscriptions = async (exchange: Exchange): Promise<Reply> => {
      const { tracking, message } = exchange;
      const { subscriptions } = tracking;
      if (subscriptions === undefined || !subscribedUris(message).every((uri) => subscriptions.has(uri)))
        tracking.subscriptions = await federation.subscriptionTargets(exchange);
      return next(exchange);
    };
    return (exchange) => {
      if (exchange.message.method === "subscriptions/listen") return resolveSubscriptions(exchange);
      const targets = federation.targetsOf(exchange);
      return isPromise(targets) ? targets.then((late) => resolve(exchange, late)) : resolve(exchange, targets);
    };
  };
  return {
    prepare: (exchange) => {
      exchange.tracking.entryTarget = federation.entryTarget;
      if (isResolved(exchange)) return true;
      const target = federation.knownTarget(exchange);
      if (target !== undefined) setTarget(exchange, target);
      return target !== undefined;
    },
    otherwise,
  };
}

/** The skills of several servers: each server is asked for all of its skills, and the policy decides for each. */
async function joinSkills(
  { uris, clock }: Federation,
  next: Handler,
  exchange: Exchange,
  targets: readonly Target[],
): Promise<Reply> {
  const { message, era, principal } = exchange;
  if (message.kind !== "request") return next(exchange);
  const given = Object(memberValue(message, "params")) as Readonly<Record<string, unknown>>;
  if ("cursor" in given) return invalid(message, "params.cursor is not one of this list; read the list from its start");
  const skills = new Map<string, unknown>();
  const degraded: unknown[] = [];
  let refused: Reply | undefined;
  let hasAnswered = false;
  for (const target of targets) {
    exchange.tracking.upstream = resolved(exchange, target);
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const params = JSON.stringify({ ...given, cursor });
      const asked = cursor === undefined ? message : createRequest(message.id, message.method, params);
      const reply = await next(withMessage(exchange, asked)).catch((error: unknown) => GatewayError.from(error));
      if (reply instanceof GatewayError) {
        if (!isOfUpstream(reply)) throw reply;
        const since = new Date(clock.wall()).toISOString();
        degraded.push({ upstream: target.member, reason: reply.message, since, stale: false });
        break;
      }
      if (reply.message?.kind !== "result") {
        refused ??= reply;
        break;
      }
      hasAnswered = true;
      const listed: unknown = Reflect.get(Object(memberValue(reply.message, "result")), "skills");
      for (const skill of Array.isArray(listed) ? (listed as readonly unknown[]) : []) {
        const uri: unknown = Reflect.get(Object(skill), "uri");
        if (typeof uri !== "string" || skills.has(uri)) continue;
        skills.set(uri, skill);
        if (uris.prefixOwner(uri) === undefined) uris.mention(target.member, principal, uri);
      }
      const after = memberString(reply.message, "result.nextCursor");
      if (after === undefined || after === cursor) break;
      cursor = after;
    }
  }
  if (!hasAnswered && refused !== undefined) return refused;
  if (!hasAnswered) throw new GatewayError("upstream_unreachable", "no server that has skills answered");
  const result = {
    ...(era === "modern" ? { resultType: "complete", ttlMs: 0, cacheScope: "private" } : {}),
    skills: [...skills.values()],
    ...(degraded.length === 0 ? {} : { _meta: { [degradedKey]: degraded } }),
  };
  return { message: resultMessage(message.id, JSON.stringify(result)) };
}

/** Gives calls the arguments that the configuration sets. */
export interface ArgumentOverrides {
  /** Comes after everything but the policy, so that nothing removes the values, and rules read what the server gets. */
  readonly set: Interceptor;
  /**
   * Refuses invalid calls, after the policy: an error must not reveal a tool that the policy hides. If a decision point
   * wrote the name of another tool, its arguments are set as well.
   */
  readonly afterPolicy: Interceptor;
}

export function createArgumentOverrides(federation: Federation): ArgumentOverrides {
  const problems = new WeakMap<Exchange["tracking"], GatewayError>();
  const done = new WeakMap<Exchange["tracking"], Target>();
  return {
    set: (next) => (exchange) => {
      const { tracking, direction } = exchange;
      // A name without a server is answered as unknown.
      if (direction !== "client-to-server" || tracking.upstream === undefined) return next(exchange);
      done.set(tracking, tracking.upstream);
      const overridden = federation.overridden(exchange);
      if (overridden.problem !== undefined) problems.set(tracking, overridden.problem);
      return next(overridden.exchange);
    },
    afterPolicy: (next) => (exchange) => {
      const { tracking, direction } = exchange;
      if (direction !== "client-to-server" || tracking.upstream === undefined) return next(exchange);
      const isDone = done.get(tracking) === tracking.upstream;
      const call = isDone ? { exchange, problem: problems.get(tracking) } : federation.overridden(exchange);
      return call.problem === undefined ? next(call.exchange) : Promise.reject(call.problem);
    },
  };
}

function resolved({ message }: Exchange, { member, name, json }: Target): Target {
  return { member, name, json, message };
}

function isNotFound({ revision }: Exchange, { message }: Reply): boolean {
  if (message?.kind !== "error") return false;
  const code = memberInteger(message, "error.code");
  return code === -32602 || code === -32601 || code === revisions[revision].resourceNotFoundCode;
}
