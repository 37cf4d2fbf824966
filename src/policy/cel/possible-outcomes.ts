import type { ASTNode } from "@marcbachmann/cel-js";

import type { Principal } from "../../core/exchange.ts";
import { celTypes, McpFacts, PrincipalFacts } from "./facts.ts";
import type { CelMap } from "./json-value.ts";
import { childrenOf, isMacroCall, literalOf, type ReadPath, readPathsOf } from "./read-paths.ts";

/** The possible results of a condition, over all requests that fit the known facts. */
export interface Outcomes {
  readonly true: boolean;
  readonly false: boolean;
  readonly error: boolean;
}

/** Determines the possible results of a condition. Never rules out a result that is possible. */
export type OutcomeTest = (call: PossibleCall) => Outcomes;

/** Compiles a part of a condition for the CEL engine. */
export type CompilePart = (node: ASTNode) => ((call: PossibleCall) => unknown) | undefined;

const certainly = {
  true: { true: true, false: false, error: false },
  false: { true: false, false: true, error: false },
  error: { true: false, false: false, error: true },
} as const satisfies Readonly<Record<string, Outcomes>>;

const anything: Outcomes = { true: true, false: true, error: true };

/**
 * Thrown by facts that differ from request to request. A single instance: creating thousands would spend most of the
 * time on stack traces.
 */
const unknownFact = new Error("not known before the call");

/** The fields of `mcp` that can be known before a request comes. */
export type KnownMcp = { readonly [Field in KnownField]?: string | undefined };
type KnownField =
  | "method"
  | "tool"
  | "prompt"
  | "resource"
  | "task"
  | "upstream"
  | "name"
  | "server"
  | "direction"
  | "kind";

/** The facts about a request that has not come yet: its caller, and some fields of `mcp`. */
export class PossibleCall {
  readonly principal: PrincipalFacts;
  readonly mcp: McpFacts;
  /** The URI template that the target's URI is expanded from, if that is all that is known of it. */
  readonly template: UriTemplate | undefined;
  /** Whether an unknown fact was read since this was last set to false. */
  hasReadUnknown = false;

  constructor(principal: Principal, known: KnownMcp, template?: string) {
    this.principal = new PrincipalFacts(principal);
    this.template = template === undefined ? undefined : new UriTemplate(template);
    this.mcp = Object.create(possibleMcp, { [callOf]: { value: this }, [knownOf]: { value: known } }) as McpFacts;
  }

  /** How and when a message arrives can differ from request to request. */
  get request(): never {
    return this.unknown();
  }

  get session(): never {
    return this.unknown();
  }

  get result(): never {
    return this.unknown();
  }

  get error(): never {
    return this.unknown();
  }

  get entry(): never {
    return this.unknown();
  }

  unknown(): never {
    this.hasReadUnknown = true;
    throw unknownFact;
  }
}

const callOf = Symbol("call");
const knownOf = Symbol("known");

interface PossibleMcp {
  readonly [callOf]: PossibleCall;
  readonly [knownOf]: KnownMcp;
}

/** Of the class that the CEL engine knows, with getters that fail where a field is not known. */
const possibleMcp: object = Object.create(
  McpFacts.prototype,
  Object.fromEntries(
    Object.keys(celTypes.Mcp).map((field) => [
      field,
      {
        get(this: PossibleMcp): unknown {
          if (field === "params") return paramsOf(this[knownOf], this[callOf]);
          // The other keys of the table are never known.
          return this[knownOf][field as KnownField] ?? this[callOf].unknown();
        },
      },
    ]),
  ),
);

/** The parameters of a request, of which only the target's name or URI is known. */
function paramsOf({ tool, prompt, resource }: KnownMcp, call: PossibleCall): CelMap {
  const key = resource ? "uri" : "name";
  const value = tool || prompt || resource || undefined;
  const unknown = (): never => call.unknown();
  const isKnown = (asked: unknown): boolean => asked === key && value !== undefined;
  // A `Map` itself, because the CEL engine asks for the constructor.
  return Object.defineProperties(new Map<string, string>(), {
    get: { value: (asked: unknown) => (isKnown(asked) ? value : unknown()) },
    has: { value: (asked: unknown) => isKnown(asked) || unknown() },
    size: { get: unknown },
    keys: { value: unknown },
    values: { value: unknown },
    entries: { value: unknown },
    forEach: { value: unknown },
    [Symbol.iterator]: { value: unknown },
  });
}

/**
 * Compiles a condition for three-valued evaluation. Logic is followed by the rules of CEL, where an error or something
 * unknown on one side does not matter if the other side decides; `compile` compiles the conditions between the operators.
 */
export function compileOutcomes(node: ASTNode, compile: CompilePart): OutcomeTest {
  switch (node.op) {
    case "&&":
    case "||": {
      const [left, right] = [compileOutcomes(node.args[0], compile), compileOutcomes(node.args[1], compile)];
      const join = node.op === "&&" ? conjunction : disjunction;
      const decisive = node.op === "&&" ? certainly.false : certainly.true;
      return (call) => {
        const first = left(call);
        return isSame(first, decisive) ? decisive : join(first, right(call));
      };
    }
    case "!_": {
      const inner = compileOutcomes(node.args, compile);
      return (call) => negation(inner(call));
    }
    case "?:": {
      const [condition, yes, no] = node.args;
      const parts = [condition, yes, no].map((part) => compileOutcomes(part, compile));
      return (call) => choice(parts.map((part) => part(call)));
    }
    default:
      return compileAtom(node, compile(node));
  }
}

function isSame(a: Outcomes, b: Outcomes): boolean {
  return a.true === b.true && a.false === b.false && a.error === b.error;
}

function conjunction(a: Outcomes, b: Outcomes): Outcomes {
  return {
    true: a.true && b.true,
    false: a.false || b.false,
    error: (a.error && (b.true || b.error)) || (b.error && (a.true || a.error)),
  };
}

function negation({ true: yes, false: no, error }: Outcomes): Outcomes {
  return { true: no, false: yes, error };
}

function disjunction(a: Outcomes, b: Outcomes): Outcomes {
  return negation(conjunction(negation(a), negation(b)));
}

function choice([condition = anything, yes = anything, no = anything]: readonly Outcomes[]): Outcomes {
  const can = (outcome: "true" | "false"): boolean =>
    (condition.true && yes[outcome]) || (condition.false && no[outcome]);
  const error = condition.error || (condition.true && yes.error) || (condition.false && no.error);
  return { true: can("true"), false: can("false"), error };
}

/** A condition without logical operators: known if it is evaluated without unknown facts. */
function compileAtom(node: ASTNode, run: ReturnType<CompilePart>): OutcomeTest {
  const overTemplate = compileTemplateTest(node);
  const isUnknown = isStrict(node) && readPathsOf(node).some(isNeverKnown);
  return (call) => {
    const known = call.template && overTemplate?.(call.template);
    if (known !== undefined) return known ? certainly.true : certainly.false;
    if (run === undefined || isUnknown) return anything;
    call.hasReadUnknown = false;
    try {
      const value = run(call);
      return value === true ? certainly.true : value === false ? certainly.false : certainly.error;
    } catch {
      return call.hasReadUnknown ? anything : certainly.error;
    }
  };
}

/** Whether everything in a node is evaluated, so that one unknown fact makes it unknown. */
function isStrict(node: ASTNode): boolean {
  const isLazy = ["&&", "||", "?:", ".?", "[?]"].includes(node.op) || isMacroCall(node);
  return !isLazy && childrenOf(node).every(({ child, variable }) => variable === undefined && isStrict(child));
}

function isNeverKnown([variable, member]: ReadPath): boolean {
  return variable !== "principal" && (variable !== "mcp" || member === "arguments");
}

/** A URI template (RFC 6570), compared by its literal text. */
class UriTemplate {
  readonly #prefix: string;
  readonly #suffix: string;

  constructor(template: string) {
    const first = template.indexOf("{");
    this.#prefix = first < 0 ? template : template.slice(0, first);
    this.#suffix = template.slice(template.lastIndexOf("}") + 1);
  }

  /** False if no expansion is this URI. */
  canBe(uri: string): boolean {
    return (
      uri.length >= this.#prefix.length + this.#suffix.length &&
      uri.startsWith(this.#prefix) &&
      uri.endsWith(this.#suffix)
    );
  }

  /** Whether the expansions start with a string; undefined if only some do. */
  startsWith(text: string): boolean | undefined {
    if (this.#prefix.startsWith(text)) return true;
    return text.startsWith(this.#prefix) ? undefined : false;
  }

  endsWith(text: string): boolean | undefined {
    if (this.#suffix.endsWith(text)) return true;
    return text.endsWith(this.#suffix) ? undefined : false;
  }
}

type TemplateTest = (template: UriTemplate) => boolean | undefined;

/** `mcp.resource` compared with literals; undefined for anything else. */
function compileTemplateTest(node: ASTNode): TemplateTest | undefined {
  if (node.op === "==" || node.op === "!=") {
    const [left, right] = node.args;
    const text = isResource(left) ? literalOf(right) : isResource(right) ? literalOf(left) : undefined;
    if (typeof text !== "string") return undefined;
    return (template) => (template.canBe(text) ? undefined : node.op === "!=");
  }
  if (node.op === "in") {
    const [left, right] = node.args;
    const texts = right.op === "list" ? right.args.map(literalOf) : [undefined];
    if (!isResource(left) || !texts.every((text) => typeof text === "string")) return undefined;
    return (template) => (texts.some((text) => template.canBe(text)) ? undefined : false);
  }
  if (node.op !== "rcall") return undefined;
  const [name, receiver, [argument]] = node.args;
  const text = argument === undefined ? undefined : literalOf(argument);
  if (!isResource(receiver) || typeof text !== "string") return undefined;
  if (name === "startsWith") return (template) => template.startsWith(text);
  return name === "endsWith" ? (template) => template.endsWith(text) : undefined;
}

function isResource(node: ASTNode): boolean {
  return node.op === "." && node.args[1] === "resource" && node.args[0].op === "id" && node.args[0].args === "mcp";
}
