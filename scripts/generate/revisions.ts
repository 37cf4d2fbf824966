import { methodFacts, methodNames } from "../../src/protocol/methods.ts";
import type { MethodDirection, MethodFacts, MethodForm, MethodKind } from "../../src/protocol/methods.ts";
import { revisionNames, revisions } from "../../src/protocol/revisions.ts";
import type { RevisionFacts } from "../../src/protocol/revisions.ts";

/** What each column of the table of revisions means; the compiler asks for a line for every new one. */
const labels: Readonly<Record<keyof RevisionFacts, string>> = {
  era: "Era",
  httpTransport: "HTTP transport",
  batching: "Batches",
  versionHeader: "`MCP-Protocol-Version` header",
  mirroredHeaders: "Mirrored headers (`Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`)",
  sessions: "Session on HTTP",
  getStream: "GET opens a stream",
  deleteSession: "DELETE ends a session",
  resumption: "Resumption by `Last-Event-ID`",
  primingEvent: "Priming event",
  closeCancels: "Closing the stream cancels",
  badOriginStatus: "Answer to a bad Origin",
  unknownMethodStatus: "HTTP status of an unknown method",
  serverRequests: "Requests by servers",
  elicitation: "Elicitation",
  inputRequired: "Results that ask for input",
  urlElicitationError: "Error -32042 (open a URL first)",
  tasks: "Tasks",
  discover: "`server/discover`",
  listen: "`subscriptions/listen`",
  progress: "Progress is reported by",
  progressMessage: "Progress with a text",
  logging: "Log level belongs to",
  idUniqueness: "An id is unique within",
  errorId: "Id of an error",
  cancelledRequestId: "Request id of a cancellation",
  resourceNotFoundCode: "Code for a resource that is not there",
  resultType: "`resultType` on results",
  cacheHints: "Cache hints on results",
  structuredContent: "Structured content",
  outputSchema: "Output schema of tools",
  contentKinds: "Content blocks",
  samplingTools: "Tools in sampling",
  toolAnnotations: "Annotations of tools",
  titles: "Titles, `_meta` of listed things",
  icons: "Icons",
  completionContext: "Context of completions",
  capabilities: "Later capabilities",
  authorization: "Role in OAuth",
};

const directions: Readonly<Record<MethodDirection, string>> = {
  "client-to-server": "client to server",
  "server-to-client": "server to client",
  both: "both ways",
};

const forms: Readonly<Record<MethodForm, string>> = {
  core: "yes",
  embedded: "in results",
  extension: "extension",
  absent: "no",
};

/** The reference page of revisions and methods, drawn from the two tables of the protocol core. */
export function renderRevisionTables(): string {
  // The keys of the labels are the keys of a row, as their type says.
  const facts = Object.keys(labels) as (keyof RevisionFacts)[];
  return `<!-- Generated from src/protocol/revisions.ts and src/protocol/methods.ts by \`npm run -s generate\`. Do not edit. -->

# Revisions

What each revision of the Model Context Protocol has, as Headgate treats it. Legacy revisions open with \`initialize\`;
modern ones carry their metadata in every request.

${table([
  ["", ...revisionNames],
  ...facts.map((fact) => [labels[fact], ...revisionNames.map((name) => cell(revisions[name][fact]))]),
])}

## Requests

"In results" means that the question travels inside a result that asks for input, "extension" that both sides must have
declared the Tasks extension. "Pace" groups methods by how long an answer may take.

${methodTable("request")}

## Notifications

Where a revision has \`subscriptions/listen\`, notifications marked "listen" come on such streams only.

${methodTable("notification")}
`;
}

function methodTable(kind: MethodKind): string {
  const isRequest = kind === "request";
  const head = ["Method", "Direction", ...revisionNames, ...(isRequest ? ["`Mcp-Name`", "Pace"] : ["Stream"])];
  const rows = methodNames
    .map((name) => methodFacts(name))
    .filter((facts) => facts?.kind === kind)
    .flatMap((facts) => (facts === undefined ? [] : [methodRow(facts, isRequest)]));
  return table([head, ...rows]);
}

function methodRow(facts: MethodFacts, isRequest: boolean): readonly string[] {
  const last = isRequest
    ? [facts.nameSource === undefined ? "" : `\`${facts.nameSource}\``, facts.timeoutClass]
    : [facts.listenOnly ? "listen" : ""];
  return [`\`${facts.name}\``, directionCell(facts), ...revisionNames.map((name) => forms[facts.forms[name]]), ...last];
}

/** One direction, or the one of each era where they differ. */
function directionCell({ directions: of }: MethodFacts): string {
  const used = new Map(revisionNames.map((name) => [revisions[name].era, directions[of[name]]]));
  const [legacy = "", modern = legacy] = [used.get("legacy"), used.get("modern")];
  return legacy === modern ? legacy : `${legacy}; modern: ${modern}`;
}

function cell(value: RevisionFacts[keyof RevisionFacts]): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return value.length === 0 ? "none" : value.join(", ");
  return String(value);
}

function table(rows: readonly (readonly string[])[]): string {
  const [head = [], ...body] = rows;
  return [head, head.map(() => "---"), ...body].map((row) => `| ${row.join(" | ")} |`).join("\n");
}
