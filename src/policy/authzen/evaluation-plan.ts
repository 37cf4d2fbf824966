import type { Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";
import type { KnownNames } from "../../protocol/json/folded-names.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberType } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { MappingInputs } from "../cel/expression.ts";
import { readCelMembers } from "../cel/json-value.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import {
  contextOf,
  type DefaultMappingOptions,
  defaultRequest,
  isPassThrough,
  subjectIdOf,
  subjectEntity,
  tokenClaims,
} from "./default-mappings.ts";
import { checkRequest, formatRequest } from "./evaluation-api.ts";
import type { DeclaredMappings, EntityFields, EvaluationRequest, Mapping } from "./mapping.ts";

/** How a message is decided. */
export type EvaluationPlan =
  /** Without evaluation. */
  | { readonly type: "pass" }
  /** It cannot be evaluated. */
  | {
      readonly type: "refuse";
      readonly refusal: PolicyRefusal;
      readonly note: string;
      /** Refused because the tool has not been listed; it may not exist at all. */
      readonly isUnlisted?: true;
    }
  | {
      readonly type: "evaluate";
      readonly request: EvaluationRequest;
      /** The request as JSON. */
      readonly body: string;
      readonly mapping: "default" | "configured" | "declared";
      /** The member names of `params` that the mapping reads. */
      readonly names: KnownNames | undefined;
      /** A list evaluates the name with the same request, so a denied name is not listed. */
      readonly isListed: boolean;
    };

export interface MappingOptions extends DefaultMappingOptions {
  readonly mappings: ReadonlyMap<string, Mapping>;
  /** Mappings that servers declare; undefined if they are ignored. */
  readonly declared: DeclaredMappings | undefined;
}

/** Plans the evaluation of a message (COAZ-MCP binding, "PEP Behavior"). */
export function planEvaluation({ exchange, message }: InspectedMessage, options: MappingOptions): EvaluationPlan {
  const { principal } = exchange;
  const method = message.method ?? "";
  if (isPassThrough(message)) return { type: "pass" };
  try {
    const tool = method === "tools/call" ? memberString(message, "params.name") : undefined;
    const own = tool === undefined ? undefined : mappingFor(tool, options);
    if (own === "unlisted") return unlisted;
    const request =
      own === undefined
        ? defaultRequest(exchange, message, options)
        : withSubject(own.mapping.build(inputsOf(principal, message, options)), principal, own.source, options);
    if (request === undefined) return { type: "refuse", refusal: unmapped, note: `no mapping for ${method}` };
    checkRequest(request);
    const target = methodFacts(method)?.target;
    return {
      type: "evaluate",
      request,
      body: formatRequest(request),
      mapping: own?.source ?? "default",
      names: own?.mapping.names,
      isListed: own === undefined && ((target !== undefined && target !== "task") || method === "completion/complete"),
    };
  } catch (error) {
    const { code, message: problem } = GatewayError.from(error);
    // Other errors are ours, and their text is not for the client.
    if (code !== "invalid_params") throw error;
    return { type: "refuse", refusal: mappingError(problem), note: problem };
  }
}

interface ToolMapping {
  readonly mapping: Mapping;
  readonly source: "configured" | "declared";
}

/** A tool that has not been listed may declare a mapping that asks for more than the default does. */
function mappingFor(tool: string, { mappings, declared }: MappingOptions): ToolMapping | "unlisted" | undefined {
  const configured = mappings.get(tool);
  if (configured !== undefined) return { mapping: configured, source: "configured" };
  if (declared === undefined) return undefined;
  const found = declared.find(tool);
  switch (found.type) {
    case "none":
      return undefined;
    case "mapping":
      return { mapping: found.mapping, source: "declared" };
    case "broken":
      throw new GatewayError("invalid_params", `the mapping declared by the tool is malformed: ${found.problem}`);
    case "unseen":
      return "unlisted";
  }
}

function inputsOf(principal: Principal, message: Message, options: DefaultMappingOptions): MappingInputs {
  const span = spanOf(message.outline, "params");
  const isObject = span !== undefined && memberType(message, "params") === "object";
  return {
    params: isObject ? readCelMembers(message.bytes, span, undefined) : new Map(),
    token: tokenClaims(principal, options),
  };
}

/** Adds the caller as the subject. A mapping that a server declares may not name another one ("Declared Mappings"). */
function withSubject(
  request: EvaluationRequest,
  principal: Principal,
  source: ToolMapping["source"],
  options: DefaultMappingOptions,
): EvaluationRequest {
  const { subject = new Map<string, unknown>(), context } = request;
  const own = subjectIdOf(principal, options);
  const id = subject.get("id");
  if (source === "declared" && id !== undefined && id !== own)
    throw new GatewayError("invalid_params", "the mapping declared by the tool names another subject than the caller");
  const base: EntityFields = id === undefined ? subjectEntity(principal, options) : new Map([["type", "identity"]]);
  return {
    ...request,
    subject: new Map([...base, ...subject]),
    context: new Map([...contextOf(principal, options), ...(context ?? [])]),
  };
}

const unlisted: EvaluationPlan = {
  type: "refuse",
  refusal: mappingError("the tool has not been listed yet; call tools/list first"),
  note: "the tool has not been listed yet, so its declared mapping is unknown",
  isUnlisted: true,
};

const unmapped: PolicyRefusal = {
  kind: "forbidden",
  code: "method_not_mapped",
  reason: "The policy does not cover this method; request denied.",
};

function mappingError(problem: string): PolicyRefusal {
  return { kind: "invalid", code: "mapping_error", reason: `The policy cannot evaluate this request: ${problem}.` };
}
