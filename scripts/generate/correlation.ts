import {
  type CorrelationState,
  correlationStates,
  type ResponseMatch,
  type Transition,
  transitions,
} from "../../src/sessions/pending/states.ts";
import { timeoutsConfig } from "../../src/config/limits.ts";
import { outcomes } from "../../src/core/outcomes.ts";
import { diagnosticTable } from "../../src/protocol/diagnostics.ts";
import { defaultCorrelationLimits } from "../../src/sessions/pending/limits.ts";

const answers: Readonly<Record<ResponseMatch, string>> = {
  match: "its response",
  late: "late",
  duplicate: "duplicate",
  orphan: "impossible",
};

/** The reference page of correlation: states, transitions, limits and diagnostics. */
export function renderCorrelationPage(): string {
  const limits = defaultCorrelationLimits;
  return `<!-- Generated from src/sessions/pending/ and src/protocol/diagnostics.ts by \`npm run -s generate\`. Do not edit. -->

# Correlation

Every request is tracked from before it is sent until its outcome, in both directions. A final state never changes: anything
that arrives later is only counted and reported.

\`\`\`mermaid
${renderDiagram()}
\`\`\`

## States

| State | Final | A response is | Meaning |
| --- | --- | --- | --- |
${stateNames().map(stateRow).join("\n")}

A response without an open request is *late* or *duplicate* while the end of its request is remembered, and an *orphan*
afterwards.

## Outcomes

How messages end, in the words of the log, \`headgate_exchanges_total\` and \`headgate traffic\` alike:

| Outcome | Failure | Meaning |
| --- | --- | --- |
${Object.entries(outcomes)
  .map(([outcome, { isFailure, meaning }]) => `| \`${outcome}\` | ${isFailure ? "yes" : "no"} | ${meaning} |`)
  .join("\n")}

## Scopes of request ids

| Traffic | Scope |
| --- | --- |
| stdio | the life of one process |
| HTTP, legacy, with a session | the session |
| HTTP, legacy, without one | the HTTP exchange |
| HTTP, modern | the HTTP exchange |
| HTTP+SSE | the connection |

An id is unique within its scope, direction and type.

## Limits and timeouts

| What | Default |
| --- | --- |
${limitRows(limits).join("\n")}

Progress and other messages on a request's stream restart the inactivity timeout, never the hard limit. A call is not idle
while the server waits for a response of the client. Listening streams have neither.

## Diagnostics

A diagnostic is a finding about a message. It never changes traffic by itself. Each one is

- counted in \`headgate_diagnostics_total\`, by route and code,
- a line of the log at \`debug\`, with the label of its exchange,
- recorded with its exchange, where traffic is recorded: \`headgate traffic show ID\` prints it, and
  \`headgate traffic diagnostic:progress.*\` finds the exchange.

Besides these, the reasons why a message is invalid (\`json.syntax\`, \`id.null\`, \`batch.unsupported\` and others) are
diagnostics where a route only observes, and \`schema.*\` names the rule of the schema that a message breaks.

| Code | Severity | Path | Meaning |
| --- | --- | --- | --- |
${Object.values(diagnosticTable)
  .map(
    ({ code, severity, path, message }) =>
      `| \`${code}\` | ${severity} | ${path === undefined ? "" : `\`${path}\``} | ${message} |`,
  )
  .join("\n")}
`;
}

/** Transitions that leave both open states alike are drawn once, from the frame around them. */
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
  const timeouts = timeoutsConfig.parse({});
  const rows: readonly (readonly [string, string])[] = [
    ["inactivity timeout: lists, handshake, other lookups", duration(timeouts.quick)],
    ["inactivity timeout: tools and unknown methods", duration(timeouts.tool)],
    ["inactivity timeout: requests that a person answers", duration(timeouts.human)],
    ["hard limit", duration(timeouts.hard)],
    ["open requests in one scope", String(limits.perScope)],
    ["open requests in total", String(limits.total)],
    ["extra slots for handshake, ping and `tasks/cancel`", String(limits.reserved)],
    ["characters of an id or a progress token", String(limits.idLength)],
    ["ended requests remembered", `${limits.tombstones}, for ${duration(limits.tombstoneMs)}`],
    ["operations waiting for a client's input", `${limits.operations}, for ${duration(timeouts.human)}`],
    ["retries of one operation", String(limits.rounds)],
  ];
  return rows.map(([what, value]) => `| ${what} | ${value} |`);
}

function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}
