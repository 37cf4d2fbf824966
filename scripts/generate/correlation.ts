import { correlationDiagnostics } from "../../src/sessions/pending/diagnostics.ts";
import { defaultTtl } from "../../src/sessions/pending/method-rules.ts";
import { defaultCorrelationLimits } from "../../src/sessions/pending/limits.ts";
import {
  type CorrelationState,
  correlationStates,
  type ResponseMatch,
  type Transition,
  transitions,
} from "../../src/sessions/pending/states.ts";

const answers: Readonly<Record<ResponseMatch, string>> = {
  match: "its answer",
  late: "late",
  duplicate: "duplicate",
  orphan: "none can come",
};

/** The reference page of correlation: states, moves, limits and findings. */
export function renderCorrelationPage(): string {
  const limits = defaultCorrelationLimits;
  return `<!-- Generated from src/sessions/correlation/ by \`npm run -s generate\`. Do not edit. -->

# Correlation

Every request is tracked from before it is written until it has an outcome, in both directions. What is final stays final:
whatever comes later is counted and reported, and changes nothing.

\`\`\`mermaid
${renderDiagram()}
\`\`\`

## States

| State | Final | A further answer is | Meaning |
| --- | --- | --- | --- |
${stateNames().map(stateRow).join("\n")}

An answer that fits nothing open is *late* or *duplicate* while the end of its request is remembered, and an *orphan* after
that.

## Within what an id is unique

| Traffic | Scope |
| --- | --- |
| stdio | the life of one process |
| HTTP, legacy, with a session | the session |
| HTTP, legacy, without one | the HTTP exchange |
| HTTP, modern | the HTTP exchange |
| HTTP+SSE | the connection |

A key is the scope, the direction of the request, and the id with its type.

## Limits, with their defaults

| What | Default |
| --- | --- |
${limitRows(limits).join("\n")}

Progress and other messages on an exchange's stream restart the time without activity, never the time in all. A call is not
idle while the server waits for an answer of the client. A stream for listening has neither limit.

## Findings

Each is reported with the message or the exchange that it is about. None changes traffic by itself. The semantic checks of
messages report ids used twice, answers that fit nothing and progress that does not belong.

| Code | Severity | Place | What |
| --- | --- | --- | --- |
${Object.values(correlationDiagnostics)
  .map(
    ({ code, severity, path, message }) =>
      `| \`${code}\` | ${severity} | ${path === undefined ? "" : `\`${path}\``} | ${message} |`,
  )
  .join("\n")}
`;
}

/** What leaves both open states in the same way is drawn once, from the frame around them. */
function renderDiagram(): string {
  const isShared = ({ from, to, on }: Transition): boolean =>
    from !== "start" && transitions.filter((other) => other.to === to && other.on === on).length > 1;
  const inside = transitions.filter((move) => isOpen(move.to) && !isShared(move));
  const shared = transitions.filter((move) => move.from === "pending" && isShared(move));
  const outside = transitions.filter((move) => !isOpen(move.to) && !isShared(move));
  const arrow = (from: string, { to, on }: Transition): string => `${from} --> ${to}: ${on}`;
  const source = ({ from }: Transition): string => (from === "start" ? "[*]" : from);
  return [
    "stateDiagram-v2",
    "  state open {",
    ...inside.map((move) => `    ${arrow(source(move), move)}`),
    "  }",
    ...shared.map((move) => `  ${arrow("open", move)}`),
    ...outside.map((move) => `  ${arrow(source(move), move)}`),
  ].join("\n");
}

function isOpen(state: CorrelationState): boolean {
  return !correlationStates[state].final;
}

function stateNames(): readonly CorrelationState[] {
  return Object.keys(correlationStates) as readonly CorrelationState[];
}

function stateRow(name: CorrelationState): string {
  const { final, answer, meaning } = correlationStates[name];
  return `| \`${name}\` | ${final ? "yes" : "no"} | ${answers[answer]} | ${meaning} |`;
}

function limitRows(limits: typeof defaultCorrelationLimits): string[] {
  const rows: readonly (readonly [string, string])[] = [
    ["without activity: lists, handshake, other lookups", duration(defaultTtl.quickMs)],
    ["without activity: tools, and methods nobody knows", duration(defaultTtl.toolMs)],
    ["without activity: what a person answers", duration(defaultTtl.humanMs)],
    ["in all", duration(defaultTtl.hardMs)],
    ["open exchanges in one scope", String(limits.perScope)],
    ["open exchanges in all", String(limits.total)],
    ["slots beyond these for handshake, ping and `tasks/cancel`", String(limits.reserved)],
    ["characters of an id or a progress token", String(limits.idLength)],
    ["ended exchanges that are remembered", `${limits.tombstones}, for ${duration(limits.tombstoneMs)}`],
    ["operations that wait for a client's input", `${limits.operations}, for ${duration(defaultTtl.humanMs)}`],
    ["retries of one operation", String(limits.rounds)],
  ];
  return rows.map(([what, value]) => `| ${what} | ${value} |`);
}

function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}
