import { RE2JS } from "re2js";

import type { ExchangeStatus, FilterCondition, NumberField, TextField } from "../contract.ts";

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

/** Milliseconds of a duration such as `250ms`, `1.5s` or `2h`; a bare number is milliseconds. */
function parseFilterDuration(text: string): number | undefined {
  return parseWithUnit(text, { "": 1, ...durationUnits });
}

/** Bytes of a size such as `512`, `32k` or `1.5MB`. */
export function parseSize(text: string): number | undefined {
  return parseWithUnit(text, sizeUnits);
}

/** A plain number. */
function parseNumber(text: string): number | undefined {
  return parseWithUnit(text, { "": 1 });
}

/**
 * A point in time, in milliseconds since 1970: `10m` is that long ago, `14:30` that time of the day of now, else a date
 * with or without a time, of the local zone unless it names one.
 */
export function parseTime(text: string, now: number): number | undefined {
  const ago = parseWithUnit(text, durationUnits);
  if (ago !== undefined) return now - ago;
  const clock = /^(?<hours>\d{1,2}):(?<minutes>\d{2})(?::(?<seconds>\d{2}))?$/u.exec(text)?.groups;
  if (clock !== undefined) {
    const { hours, minutes, seconds = "0" } = clock;
    const day = new Date(now);
    const at = day.setHours(Number(hours), Number(minutes), Number(seconds), 0);
    return Number(hours) < 24 && Number(minutes) < 60 ? at : undefined;
  }
  if (!/^\d{4}-\d{2}-\d{2}(?:$|T)/u.test(text)) return undefined;
  // A date alone would be taken for midnight in Greenwich.
  const at = Date.parse(text.includes("T") ? text : `${text}T00:00`);
  return Number.isNaN(at) ? undefined : at;
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const { digits, unit = "" } = /^(?<digits>-?\d+(?:\.\d+)?)(?<unit>[a-z]*)$/iu.exec(text)?.groups ?? {};
  const lower = unit.toLowerCase();
  const factor = Object.hasOwn(units, lower) ? units[lower] : undefined;
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}

/** The value of a term: a text as it is, one in quotes, or a pattern between slashes. */
export interface TermValue {
  readonly form: "word" | "quoted" | "pattern";
  readonly text: string;
}

/** A condition, or what is wrong with the value. */
export type TermResult =
  | { readonly ok: true; readonly condition: FilterCondition }
  | { readonly ok: false; readonly message: string };

/** What can stand before a colon. */
export interface Term {
  readonly text: string;
  readonly example: string;
  readonly read: (value: TermValue, now: number) => TermResult;
}

/** The states in which an exchange has failed, whoever is to blame. */
const failures: readonly ExchangeStatus[] = ["tool_error", "error", "refused", "failed", "abandoned"];

const states: readonly ExchangeStatus[] = ["open", "ok", "input_required", "accepted", ...failures];

/** Everything that can be asked for with `name:value`. */
export const terms: Readonly<Record<string, Term>> = {
  method: textTerm("method", "Method, `*` standing for any text", "method:tools/*"),
  tool: targetTerm("tools/call", "Tool that is called", "tool:delete_file"),
  prompt: targetTerm("prompts/get", "Prompt that is asked for", "prompt:review"),
  uri: targetTerm("resources/*", "Resource that is read or watched", "uri:file:///etc/*"),
  target: textTerm("target", "Whatever it is about: tool, prompt, resource, task", "target:berths"),
  principal: textTerm("principal", "Who called", "principal:ann"),
  session: textTerm("session", "Session, by the beginning that logs show", "session:3f2a*"),
  route: textTerm("route", "Route of the gateway", "route:files"),
  status: { text: "How it ended; `err` is any failure", example: "status:err", read: readStatus },
  decision: choiceTerm("decision", ["allow", "change", "filter", "deny"], "What the policy said", "decision:deny"),
  rule: textTerm("rule", "Rule that decided", "rule:no-deletes"),
  code: numberTerm(["errorCode"], parseNumber, "JSON-RPC error code", "code:-32602"),
  gateway: textTerm("gatewayCode", "Error code of the gateway itself", "gateway:upstream_timeout"),
  dur: numberTerm(["durationMs"], parseFilterDuration, "How long it took", "dur:>500ms"),
  server: numberTerm(["upstreamMs"], parseFilterDuration, "How long the server took", "server:>=2s"),
  size: numberTerm(["requestBytes", "answerBytes"], parseSize, "Bytes of request or answer", "size:>32k"),
  since: timeTerm(">=", "Begun then or later: a date, a time of today, or so long ago", "since:10m"),
  before: timeTerm("<", "Begun earlier", "before:2026-11-01"),
  dir: choiceTerm("direction", ["c2s", "s2c"], "From client to server, or back", "dir:s2c"),
  kind: choiceTerm("kind", ["request", "notification"], "Asks for an answer or does not", "kind:notification"),
  transport: textTerm("transport", "How the client came: http, sse, stdio", "transport:stdio"),
  revision: textTerm("revision", "Revision of MCP", "revision:2025-*"),
  id: prefixTerm("id", "Exchange, by the beginning of its id", "id:01JC"),
  op: prefixTerm("operation", "Operation, by the beginning of its id", "op:01JC"),
  rpc: textTerm("rpcId", "JSON-RPC id with its type", "rpc:n:7"),
  trace: prefixTerm("traceId", "Trace, by the beginning of its id", "trace:4bf9"),
  capture: prefixTerm("capture", "Run of a gateway", "capture:01JC"),
  request: bodyTerm("request", "Text in what was asked", 'request:"drop table"'),
  answer: bodyTerm("answer", "Text in what was answered", "answer:timeout"),
  text: bodyTerm("any", "Text in either", "text:invoice"),
};

/** Words that stand alone, and what they mean. */
export const keywords: Readonly<Record<string, { readonly text: string; readonly condition: FilterCondition }>> = {
  open: { text: "no answer yet", condition: { type: "is", field: "state", value: "open" } },
  error: { text: "failed, whoever is to blame", condition: anyState(failures) },
  denied: { text: "refused by the policy", condition: { type: "is", field: "decision", value: "deny" } },
  modified: { text: "went on in another form than it came", condition: { type: "modified" } },
  redacted: {
    text: "something was taken out before it was stored",
    condition: { type: "number", field: "redacted", is: ">", value: 0 },
  },
  truncated: {
    text: "a body was left out",
    condition: { type: "number", field: "omitted", is: ">", value: 0 },
  },
};

/** The letters of mitmproxy, for hands that know them. */
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

/** The letters that take no value. */
export const mitmproxyBareFlags: Readonly<Record<string, FilterCondition>> = {
  q: { type: "is", field: "state", value: "open" },
  s: { type: "not", of: { type: "is", field: "state", value: "open" } },
  e: anyState(failures),
  a: { type: "all", of: [] },
};

/** A text that must be found in the method, the target or a body. */
export function textAnywhere({ form, text }: TermValue): TermResult {
  if (form === "pattern") {
    const problem = patternProblem(text);
    if (problem !== undefined) return { ok: false, message: problem };
    const of = (["method", "target"] as const).map((field): FilterCondition => ({
      type: "pattern",
      field,
      pattern: text,
    }));
    return { ok: true, condition: { type: "any", of } };
  }
  const inNames = (["method", "target"] as const).map((field): FilterCondition => ({
    type: "like",
    field,
    pattern: `*${text}*`,
  }));
  return { ok: true, condition: { type: "any", of: [...inNames, { type: "text", text, in: "any" }] } };
}

function textTerm(field: TextField, text: string, example: string): Term {
  return { text, example, read: (value) => compared(field, value) };
}

function prefixTerm(field: TextField, text: string, example: string): Term {
  return {
    text,
    example,
    read: (value) =>
      value.form === "word" && !value.text.includes("*")
        ? { ok: true, condition: { type: "like", field, pattern: `${value.text}*` } }
        : compared(field, value),
  };
}

function targetTerm(method: string, text: string, example: string): Term {
  const isOfMethod = compare("method", { form: "word", text: method });
  return {
    text,
    example,
    read: (value) => {
      const target = compared("target", value);
      return target.ok ? { ok: true, condition: { type: "all", of: [isOfMethod, target.condition] } } : target;
    },
  };
}

function choiceTerm(field: TextField, choices: readonly string[], text: string, example: string): Term {
  return {
    text,
    example,
    read: ({ text: given }) =>
      choices.includes(given)
        ? { ok: true, condition: { type: "is", field, value: given } }
        : { ok: false, message: `is one of ${choices.join(", ")}` },
  };
}

function readStatus({ text }: TermValue): TermResult {
  if (text === "err") return { ok: true, condition: anyState(failures) };
  const state = states.find((name) => name === text);
  return state === undefined
    ? { ok: false, message: `is one of ${states.join(", ")}, or err for any failure` }
    : { ok: true, condition: { type: "is", field: "state", value: state } };
}

function bodyTerm(place: "any" | "request" | "answer", text: string, example: string): Term {
  return {
    text,
    example,
    read: (value) =>
      value.form === "pattern"
        ? { ok: false, message: "takes a text; patterns are for names such as method:, tool: and principal:" }
        : { ok: true, condition: { type: "text", text: value.text, in: place } },
  };
}

function numberTerm(
  fields: readonly NumberField[],
  parse: (text: string) => number | undefined,
  text: string,
  example: string,
): Term {
  return {
    text,
    example,
    read: ({ text: given }) => {
      const { sign = "=", rest = "" } = /^(?<sign>[<>]=?|=)?(?<rest>.*)$/su.exec(given)?.groups ?? {};
      const value = parse(rest);
      if (value === undefined) return { ok: false, message: `takes a number, such as ${example}` };
      const is = sign as "<" | "<=" | "=" | ">=" | ">";
      const of = fields.map((field): FilterCondition => ({ type: "number", field, is, value }));
      const [only] = of;
      return {
        ok: true,
        condition: of.length === 1 && only !== undefined ? only : { type: "any", of },
      };
    },
  };
}

function timeTerm(is: ">=" | "<", text: string, example: string): Term {
  return {
    text,
    example,
    read: ({ text: given }, now) => {
      const value = parseTime(given, now);
      return value === undefined
        ? { ok: false, message: "takes a time such as 10m, 14:30 or 2026-11-15T14:30" }
        : { ok: true, condition: { type: "number", field: "at", is, value } };
    },
  };
}

function compared(field: TextField, value: TermValue): TermResult {
  const problem = value.form === "pattern" ? patternProblem(value.text) : undefined;
  return problem === undefined ? { ok: true, condition: compare(field, value) } : { ok: false, message: problem };
}

function patternProblem(source: string): string | undefined {
  try {
    RE2JS.compile(source);
    return undefined;
  } catch (error) {
    return `has a pattern that cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function compare(field: TextField, { form, text }: TermValue): FilterCondition {
  if (form === "pattern") return { type: "pattern", field, pattern: text };
  const isGlob = form === "word" && text.includes("*");
  return isGlob ? { type: "like", field, pattern: text } : { type: "is", field, value: text };
}

function anyState(list: readonly ExchangeStatus[]): FilterCondition {
  return { type: "any", of: list.map((value) => ({ type: "is", field: "state", value })) };
}
