import { errorTable, type ErrorFacts } from "../../src/errors.ts";

/** The reference page of the error table. */
export function renderErrorsPage(): string {
  const rows = Object.entries(errorTable).map(
    ([code, facts]) =>
      `| \`${code}\` | ${httpCell(facts)} | ${facts.jsonrpc ?? "none"} | ${facts.retryable ? "yes" : "no"} | ${facts.level} | ${facts.description} |`,
  );
  return `<!-- Generated from src/errors.ts by \`npm run -s generate\`. Do not edit. -->

# Errors

The errors of the gateway itself. Errors of a client or an upstream server are forwarded unchanged.

- In a JSON-RPC error, \`data.origin\` is \`"gateway"\` and \`data.code\` is a code of this table.
- An HTTP request that is rejected before its body is read (405, 406, 409, 415) gets -32000 with \`data.origin\` alone.
- A tool, prompt or resource that policy hides gets the same error as one that does not exist, without \`data.origin\`.
- Positive JSON-RPC codes are decisions of the gateway; -32603 is a failure of the gateway or of an upstream server.
- "Retry" says whether the same message may succeed later, not whether it is safe to repeat.

| Code | HTTP | JSON-RPC | Retry | Log level | When |
| --- | --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
}

function httpCell({ http, alternateHttp, exitCode }: ErrorFacts): string {
  if (exitCode !== undefined) return `exit code ${exitCode}`;
  if (http === undefined) return "none";
  return alternateHttp === undefined ? String(http) : `${http}; ${alternateHttp.status} if ${alternateHttp.when}`;
}
