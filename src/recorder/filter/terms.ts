import { failedOutcomes } from "../../core/outcomes.ts";
import { re2 } from "../../lib/lazy-modules.ts";
import { principalNamePattern } from "../../core/exchange.ts";
import {
  exchangeKinds,
  exchangeStatuses,
  type ExchangeStatus,
  type FilterCondition,
  type NumberField,
} from "../contract.ts";
import type { TextField, TextScope } from "../contract.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

/** The value of a term: a bare word, a quoted text, or a pattern between slashes. */
export interface TermValue {
  readonly form: "word" | "quoted" | "pattern";
  readonly text: string;
}

/** A name that can stand before a colon. */
export interface Term {
  readonly example: string;
  /** Throws a {@link TermError} for a value that it cannot read. */
  readonly read: (value: TermValue, now: number) => FilterCondition;
}

/** Says what is wrong with the value of a term. */
export class TermError extends Error {}

/** Everything that can be searched for with `name:value`. */
export const terms: Readonly<Record<string, Term>> = {
  method: textTerm("method", "method:tools/*"),
  tool: targetTerm("tools/call", "tool:delete_file"),
  prompt: targetTerm("prompts/get", "prompt:review"),
  uri: targetTerm("resources/*", "uri:file:///etc/*"),
  target: textTerm("target", "target:berths"),
  principal: { example: "principal:ann", read: readPrincipal },
  client: textTerm("client", "client:claude-code"),
  session: textTerm("session", "session:3f2a*"),
  route: textTerm("route", "route:files"),
  upstream: textTerm("upstream", "upstream:github"),
  member: textTerm("upstream", "member:github"),
  status: { example: "status:err", read: readStatus },
  decision: choiceTerm("decision", ["allow", "change", "filter", "deny"], "decision:deny"),
  rule: textTerm("rule", "rule:no-deletes"),
  diagnostic: { example: "diagnostic:progress.*", read: readDiagnostic },
  code: numberTerm(["errorCode"], parseNumber, "code:-32602"),
  gateway: textTerm("gatewayCode", "gateway:upstream_timeout"),
  dur: numberTerm(["durationMs"], parseMilliseconds, "dur:>500ms"),
  server: numberTerm(["upstreamMs"], parseMilliseconds, "server:>=2s"),
  size: numberTerm(["requestBytes", "answerBytes"], parseSize, "size:>32k"),
  since: timeTerm(">=", "since:10m"),
  before: timeTerm("<", "before:2026-11-01"),
  dir: choiceTerm("direction", ["c2s", "s2c"], "dir:s2c"),
  kind: choiceTerm("kind", exchangeKinds, "kind:http"),
  transport: textTerm("transport", "transport:stdio"),
  revision: textTerm("revision", "revision:2025-*"),
  id: prefixTerm("id", "id:01JC"),
  op: prefixTerm("operation", "op:01JC"),
  rpc: textTerm("rpcId", "rpc:n:7"),
  trace: prefixTerm("traceId", "trace:4bf9"),
  capture: prefixTerm("capture", "capture:01JC"),
  request: bodyTerm("request", 'request:"drop table"'),
  answer: bodyTerm("answer", "answer:timeout"),
  text: bodyTerm("any", "text:invoice"),
};

const isOpen: FilterCondition = { type: "is", field: "state", value: "open" };

/** Words that have a meaning without a value. */
export const keywords: Readonly<Record<string, FilterCondition>> = {
  open: isOpen,
  error: anyState(failedOutcomes),
  denied: { type: "is", field: "decision", value: "deny" },
  modified: { type: "modified" },
  redacted: { type: "number", field: "redacted", is: ">", value: 0 },
  truncated: { type: "number", field: "omitted", is: ">", value: 0 },
};

/** Flags of mitmproxy that take a value, and the terms they stand for. */
export const mitmproxyFlags: Readonly<Record<string, keyof typeof terms>> = {
  m: "method",
  t: "tool",
  u: "principal",
  c: "status",
  d: "decision",
  b: "text",
  bq: "request",
  bs: "answer",
};

/** Flags of mitmproxy that take no value. */
export const mitmproxyBareFlags: Readonly<Record<string, FilterCondition>> = {
  q: isOpen,
  s: { type: "not", of: isOpen },
  e: anyState(failedOutcomes),
  a: { type: "all", of: [] },
};

/** Text in the method, the target or a body; patterns are for method and target only. */
export function textAnywhere(value: TermValue): FilterCondition {
  const { form, text } = value;
  const names = ["method", "target"] as const;
  if (form === "pattern") return { type: "any", of: names.map((field) => compare(field, value)) };
  const inNames = names.map((field) => ({ type: "like", field, pattern: `*${text}*` }) as const);
  return { type: "any", of: [...inNames, { type: "text", text, in: "any" }] };
}

function textTerm(field: TextField, example: string): Term {
  return { example, read: (value) => compare(field, value) };
}

function prefixTerm(field: TextField, example: string): Term {
  return {
    example,
    read: (value) =>
      value.form === "word" && !value.text.includes("*")
        ? { type: "like", field, pattern: `${value.text}*` }
        : compare(field, value),
  };
}

function targetTerm(method: string, example: string): Term {
  const isOfMethod = compare("method", { form: "word", text: method });
  return { example, read: (value) => ({ type: "all", of: [isOfMethod, compare("target", value)] }) };
}

function choiceTerm(field: TextField, choices: readonly string[], example: string): Term {
  return {
    example,
    read: ({ text }) => {
      if (!choices.includes(text)) throw new TermError(`must be one of ${choices.join(", ")}`);
      return { type: "is", field, value: text };
    },
  };
}

function readStatus({ text }: TermValue): FilterCondition {
  if (text === "err") return anyState(failedOutcomes);
  if (!exchangeStatuses.some((name) => name === text))
    throw new TermError(`must be one of ${exchangeStatuses.join(", ")}, or err for any failure`);
  return { type: "is", field: "state", value: text };
}

/** By the whole id, or by the short name of the principal. */
function readPrincipal(value: TermValue): FilterCondition {
  if (value.form === "pattern") return compare("principal", value);
  const pattern = principalNamePattern(value.text, value.form === "word");
  // Stores find callers by how their ids end; the pattern then tells names from ids that only end alike.
  const endings = ["", "*#", "*=", "*/"].map((start): FilterCondition => ({
    type: "like",
    field: "principal",
    pattern: start + value.text,
  }));
  const isNamed: FilterCondition = {
    type: "any",
    of: [compare("principal", value), { type: "pattern", field: "principal", pattern }],
  };
  return { type: "all", of: [{ type: "any", of: endings }, isNamed] };
}

/** An exchange may have several, separated by spaces. */
function readDiagnostic(value: TermValue): FilterCondition {
  if (value.form === "pattern") return compare("diagnostic", value);
  const of = ["", "* "].flatMap((before) =>
    ["", " *"].map((after) => ({ type: "like", field: "diagnostic", pattern: before + value.text + after }) as const),
  );
  return { type: "any", of };
}

function bodyTerm(scope: TextScope, example: string): Term {
  return {
    example,
    read: ({ form, text }) => {
      if (form === "pattern")
        throw new TermError("takes a text; patterns are for names such as method:, tool: and principal:");
      return { type: "text", text, in: scope };
    },
  };
}

function numberTerm(
  fields: readonly NumberField[],
  parse: (text: string) => number | undefined,
  example: string,
): Term {
  return {
    example,
    read: ({ text }) => {
      const { sign = "=", rest = "" } = /^(?<sign>[<>]=?|=)?(?<rest>.*)$/su.exec(text)?.groups ?? {};
      const value = parse(rest);
      if (value === undefined) throw new TermError(`needs a number, for example ${example}`);
      const is = sign as "<" | "<=" | "=" | ">=" | ">";
      const of = fields.map((field): FilterCondition => ({ type: "number", field, is, value }));
      return of.length === 1 && of[0] !== undefined ? of[0] : { type: "any", of };
    },
  };
}

function timeTerm(is: ">=" | "<", example: string): Term {
  return {
    example,
    read: ({ text }, now) => {
      const value = parseTime(text, now);
      if (value === undefined) throw new TermError("needs a time, for example 10m, 14:30 or 2026-11-15T14:30");
      return { type: "number", field: "at", is, value };
    },
  };
}

function compare(field: TextField, { form, text }: TermValue): FilterCondition {
  if (form === "pattern") {
    try {
      re2().RE2JS.compile(text);
    } catch (error) {
      throw new TermError(`has an invalid pattern: ${thrownMessage(error)}`);
    }
    return { type: "pattern", field, pattern: text };
  }
  const isGlob = form === "word" && text.includes("*");
  return isGlob ? { type: "like", field, pattern: text } : { type: "is", field, value: text };
}

function anyState(list: readonly ExchangeStatus[]): FilterCondition {
  return { type: "any", of: list.map((value) => ({ type: "is", field: "state", value })) };
}

const durationUnits: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const sizeUnits: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kb: 1024,
  m: 1024 ** 2,
  mb: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1024 ** 3,
};

function parseNumber(text: string): number | undefined {
  return parseWithUnit(text, { "": 1 });
}

/** Milliseconds of a duration such as `250ms`, `1.5s` or `2h`; a bare number is milliseconds. */
function parseMilliseconds(text: string): number | undefined {
  return parseWithUnit(text, { "": 1, ...durationUnits });
}

/** Bytes of a size such as `512`, `32k` or `1.5MB`. */
export function parseSize(text: string): number | undefined {
  return parseWithUnit(text, sizeUnits);
}

/**
 * A point in time, in milliseconds since 1970: `10m` is that long ago, `14:30` a time of today, else a date with or
 * without a time, in the local time zone unless it names one.
 */
export function parseTime(text: string, now: number): number | undefined {
  const ago = parseWithUnit(text, durationUnits);
  if (ago !== undefined) return now - ago;
  const clock = /^(?<hours>\d{1,2}):(?<minutes>\d{2})(?::(?<seconds>\d{2}))?$/u.exec(text)?.groups;
  if (clock !== undefined) {
    const { hours, minutes, seconds = "0" } = clock;
    const at = new Date(now).setHours(Number(hours), Number(minutes), Number(seconds), 0);
    return Number(hours) < 24 && Number(minutes) < 60 ? at : undefined;
  }
  if (!/^\d{4}-\d{2}-\d{2}(?:$|T)/u.test(text)) return undefined;
  // `Date.parse` reads a date without a time as UTC.
  const at = Date.parse(text.includes("T") ? text : `${text}T00:00`);
  return Number.isNaN(at) ? undefined : at;
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const { digits, unit = "" } = /^(?<digits>-?\d+(?:\.\d+)?)(?<unit>[a-z]*)$/iu.exec(text)?.groups ?? {};
  const lower = unit.toLowerCase();
  const factor = Object.hasOwn(units, lower) ? units[lower] : undefined;
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}
