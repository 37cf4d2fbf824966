import { GatewayError } from "../../errors.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { memberString, memberType } from "../../protocol/json/read.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { MappingInputs } from "../cel/expression.ts";
import { readCelMembers } from "../cel/json-value.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { DeclaredMappings, EntityFields, EvaluationRequest, Mapping, MappingDeclaration } from "./mapping.ts";
import {
  contextOf,
  type DefaultMappingOptions,
  defaultRequest,
  isPassThroughMethod,
  subjectIdOf,
  subjectOf,
  tokenClaims,
} from "./default-mappings.ts";
import { checkRequest, formatRequest, type FormattedRequest } from "./evaluation-api.ts";

/** What is to be done about a message before anybody is asked. */
export type EvaluationPlan =
  /** Nobody is asked. */
  | { readonly type: "pass" }
  /** Nobody can be asked. */
  | {
      readonly type: "refuse";
      readonly refusal: PolicyRefusal;
      readonly note: string;
      /** Whether that is because nobody has listed the name, which may not exist at all. */
      readonly isUnlisted?: true;
    }
  | {
      readonly type: "ask";
      readonly request: EvaluationRequest;
      readonly text: FormattedRequest;
      /** Which mapping it was made by, for explanations. */
      readonly mapping: "default" | "configured" | "declared";
      /** Whether a list asks the very same about the name, so that a no here means that it is not listed. */
      readonly isListed: boolean;
    };

/** What questions are made with. */
export interface MappingOptions extends DefaultMappingOptions {
  readonly mappings: ReadonlyMap<string, Mapping>;
  /** What servers declare; undefined where that does not count. */
  readonly declared: DeclaredMappings | undefined;
}

const pass: EvaluationPlan = { type: "pass" };

/** Works out what to ask about a message (COAZ-MCP binding, "PEP Behavior"). */
export function planEvaluation({ exchange, message }: InspectedMessage, settings: MappingOptions): EvaluationPlan {
  const method = message.method ?? "";
  if (message.kind === "notification" || isPassThroughMethod(method)) return pass;
  try {
    const tool = method === "tools/call" ? memberString(message, "params.name") : undefined;
    if (tool !== undefined && isUnlisted(tool, settings)) return unlisted;
    const own = tool === undefined ? undefined : mappingFor(tool, settings);
    const request =
      own === undefined
        ? defaultRequest(exchange, message, settings)
        : anchored(
            own.mapping(inputsOf(exchange.principal, message, settings)),
            exchange.principal,
            own.source,
            settings,
          );
    if (request === undefined) return { type: "refuse", refusal: unmapped, note: `no mapping for ${method}` };
    checkRequest(request);
    const target = methodFacts(method)?.target;
    return {
      type: "ask",
      request,
      text: formatRequest(request),
      mapping: own?.source ?? "default",
      isListed: own === undefined && ((target !== undefined && target !== "task") || method === "completion/complete"),
    };
  } catch (error) {
    const { code, message: words } = GatewayError.from(error);
    // Anything else is a fault of ours, and its words are for nobody.
    if (code !== "invalid_params") throw error;
    return { type: "refuse", refusal: mappingError(words), note: words };
  }
}

/** Whether a tool may declare a mapping that nobody has seen: it may ask for more than the default does. */
function isUnlisted(tool: string, { mappings, declared }: MappingOptions): boolean {
  return !mappings.has(tool) && declared?.find(tool).type === "unseen";
}

type Principal = InspectedMessage["exchange"]["principal"];

interface OwnMapping {
  readonly mapping: Mapping;
  readonly source: "configured" | "declared";
}

function mappingFor(tool: string, { mappings, declared }: MappingOptions): OwnMapping | undefined {
  const configured = mappings.get(tool);
  if (configured !== undefined) return { mapping: configured, source: "configured" };
  const found: MappingDeclaration = declared?.find(tool) ?? { type: "none" };
  switch (found.type) {
    case "none":
      return undefined;
    case "mapping":
      return { mapping: found.mapping, source: "declared" };
    case "broken":
      throw new GatewayError("invalid_params", `the mapping that the tool declares is malformed: ${found.problem}`);
    case "unseen":
      // Refused before: see `unlisted`.
      throw new GatewayError("invalid_params", "the tool has not been listed yet");
  }
}

function inputsOf(principal: Principal, message: Message, settings: DefaultMappingOptions): MappingInputs {
  const span = spanOf(message.outline, "params");
  const isObject = span !== undefined && memberType(message, "params") === "object";
  return {
    params: isObject ? readCelMembers(message.bytes, span, undefined) : new Map(),
    token: tokenClaims(principal, settings),
  };
}

/** The request with the caller as its subject, verified where a server wrote the mapping ("Declared Mappings"). */
function anchored(
  request: EvaluationRequest,
  principal: Principal,
  source: OwnMapping["source"],
  settings: DefaultMappingOptions,
): EvaluationRequest {
  const { subject = new Map<string, unknown>(), context } = request;
  const own = subjectIdOf(principal, settings);
  const id = subject.get("id");
  if (source === "declared" && id !== undefined && id !== own)
    throw new GatewayError(
      "invalid_params",
      "the mapping that the tool declares names another subject than the caller",
    );
  const usual: EntityFields = id === undefined ? subjectOf(principal, settings) : new Map([["type", "identity"]]);
  return {
    ...request,
    subject: new Map([...usual, ...subject]),
    context: new Map([...contextOf(principal, settings), ...(context ?? [])]),
  };
}

const unlisted: EvaluationPlan = {
  type: "refuse",
  refusal: mappingError("the tool has not been listed yet; ask for tools/list first"),
  note: "the tool has not been listed yet, so it is not known what it declares",
  isUnlisted: true,
};

const unmapped: PolicyRefusal = {
  kind: "forbidden",
  code: "method_not_mapped",
  reason: "the policy knows nothing about this method, so it is refused",
};

function mappingError(problem: string): PolicyRefusal {
  return {
    kind: "invalid",
    code: "mapping_error",
    reason: `it cannot be worked out what to ask the policy about this: ${problem}`,
  };
}
