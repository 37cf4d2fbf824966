import { isDeepStrictEqual } from "node:util";

import type { Exchange } from "../../core/exchange.ts";
import { withMessage } from "../../core/exchange.ts";
import { synthesizeRequest } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { changeMembers, insertMember, replaceMember } from "../../protocol/json/edit.ts";
import { findAmbiguousName, knownNames } from "../../protocol/json/folded-names.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberType, memberValue } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** How a tool is offered, where that differs from what its server says. */
export interface ToolOverride {
  readonly name?: string | undefined;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly annotations?: Readonly<Record<string, unknown>> | undefined;
  readonly hide: boolean;
  readonly arguments: Readonly<Record<string, ArgumentOverride>>;
}

/** How an argument of a tool is offered and filled. */
export interface ArgumentOverride {
  /** The JSON text of the value that every call gets. Throws if it has no value. */
  readonly fixed?: ((exchange: Exchange) => string) | undefined;
  /** The value of calls without the argument. */
  readonly default?: unknown;
  /** Hide the argument; clients cannot send it. */
  readonly hide: boolean;
  readonly description?: string | undefined;
  /** The only values that clients may send. */
  readonly enum?: readonly unknown[] | undefined;
}

type UnknownRecord = Readonly<Record<string, unknown>>;

/** The tool as clients see it. */
export function overrideDefinition(tool: UnknownRecord, override: ToolOverride): UnknownRecord {
  const { title, description, annotations, arguments: args } = override;
  const own = isObject(tool["annotations"]) ? tool["annotations"] : {};
  return {
    ...tool,
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(annotations === undefined ? {} : { annotations: { ...own, ...annotations } }),
    ...(Object.keys(args).length === 0 ? {} : { inputSchema: overrideSchema(tool["inputSchema"], args) }),
  };
}

function overrideSchema(schema: unknown, args: ToolOverride["arguments"]): UnknownRecord {
  const given: UnknownRecord = isObject(schema) ? schema : { type: "object" };
  const properties: Record<string, unknown> = { ...(isObject(given["properties"]) ? given["properties"] : {}) };
  const isOptional = new Set<unknown>();
  for (const [name, override] of Object.entries(args)) {
    const { fixed, hide, description } = override;
    if (fixed !== undefined || hide) {
      delete properties[name];
      isOptional.add(name);
      continue;
    }
    if (override.default !== undefined) isOptional.add(name);
    properties[name] = {
      ...(isObject(properties[name]) ? properties[name] : {}),
      ...(description === undefined ? {} : { description }),
      ...(override.default === undefined ? {} : { default: override.default }),
      ...(override.enum === undefined ? {} : { enum: override.enum }),
    };
  }
  const required = Array.isArray(given["required"]) ? given["required"].filter((name) => !isOptional.has(name)) : [];
  return { ...given, properties, required };
}

/** A call with the arguments that its server gets, as far as they are known. */
export interface OverriddenCall {
  readonly exchange: Exchange;
  /** Why the call may not be made: the client sent a value that it may not, or a fixed value has none for it. */
  readonly problem?: GatewayError | undefined;
}

/** The call with the arguments that its server gets. Where one is wrong, rules can still read the others. */
export function overrideCall(exchange: Exchange, message: RequestMessage, override: ToolOverride): OverriddenCall {
  const given: unknown = memberValue(message, "params.arguments") ?? {};
  const names = Object.keys(override.arguments);
  if (names.length === 0) return { exchange };
  if (!isObject(given))
    return { exchange, problem: new GatewayError("invalid_params", "params.arguments must be an object") };
  const ambiguous = spellingProblem(message, names);
  if (ambiguous !== undefined) return { exchange, problem: ambiguous };
  const changes = new Map<string, string | undefined>();
  let problem: GatewayError | undefined;
  for (const [name, argument] of Object.entries(override.arguments)) {
    try {
      changeArgument(changes, name, argument, given, exchange);
    } catch (error) {
      problem ??= GatewayError.from(error);
    }
  }
  if (changes.size === 0) return { exchange, problem };
  return { exchange: withMessage(exchange, withArguments(message, changes)), problem };
}

/** Notes the value of one argument. Throws if it has none, or the client sent one that it may not. */
function changeArgument(
  changes: Map<string, string | undefined>,
  name: string,
  argument: ArgumentOverride,
  given: UnknownRecord,
  exchange: Exchange,
): void {
  const isGiven = Object.hasOwn(given, name);
  if (argument.fixed !== undefined) changes.set(name, argument.fixed(exchange));
  else if (argument.hide && isGiven) changes.set(name, undefined);
  // Compared exactly as configured: a number that differs in its last digits must not reach a server that reads all
  // of them.
  if (!changes.has(name) && isGiven && argument.enum !== undefined)
    changes.set(name, JSON.stringify(choiceOf(name, given[name], argument.enum)));
  const isMissing = changes.has(name) ? changes.get(name) === undefined : !isGiven;
  if (isMissing && argument.default !== undefined) changes.set(name, JSON.stringify(argument.default));
}

/** Servers that read names without regard to letter case would take another spelling for the argument that is set here. */
function spellingProblem({ bytes, outline }: RequestMessage, names: readonly string[]): GatewayError | undefined {
  const params = spanOf(outline, "params");
  const known = knownNames(names.map((name) => ["arguments", name]));
  const found = params === undefined ? undefined : findAmbiguousName(bytes, params, known);
  if (found === undefined) return undefined;
  const shown = JSON.stringify(found.name.slice(0, maxShown));
  return new GatewayError("invalid_params", `the member name ${shown} could be read as another one`);
}

const maxShown = 100;

function choiceOf(name: string, value: unknown, choices: readonly unknown[]): unknown {
  const found = choices.findIndex((choice) => isDeepStrictEqual(choice, value));
  if (found < 0)
    throw new GatewayError("invalid_params", `the argument ${name} must be one of ${JSON.stringify(choices)}`);
  return choices[found];
}

function withArguments(message: RequestMessage, changes: ReadonlyMap<string, string | undefined>): RequestMessage {
  const { bytes, outline } = message;
  const span = spanOf(outline, "params.arguments");
  if (span !== undefined && memberType(message, "params.arguments") === "object") {
    const edited = replaceMember(message, "params.arguments", changeMembers(bytes, span, changes));
    return edited === undefined ? message : synthesizeRequest(edited);
  }
  const members = [...changes].flatMap(([name, json]) =>
    json === undefined ? [] : [`${JSON.stringify(name)}:${json}`],
  );
  const json = `{${members.join(",")}}`;
  const params = spanOf(outline, "params");
  // If they are null they are replaced: with a second member of that name, the server would choose.
  const edited =
    span === undefined && params !== undefined
      ? insertMember(bytes, outline, params, "arguments", json)
      : replaceMember(message, "params.arguments", json);
  return edited === undefined ? message : synthesizeRequest(edited);
}
