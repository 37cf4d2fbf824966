import { errorTable, type ErrorFacts } from "../../src/errors.ts";

/** The reference page of the error table. */
export function renderErrorsPage(): string {
  const rows = Object.entries(errorTable).map(
    ([code, facts]) =>
      `| \`${code}\` | ${httpCell(facts)} | ${facts.jsonrpc ?? "none"} | ${facts.retryable ? "yes" : "no"} | ${facts.level} | ${facts.description} |`,
  );
  return `<!-- Generated from src/errors.ts by \`npm run -s generate\`. Do not edit. -->

# Errors

Every error that Headgate itself makes. What a peer answered is passed on as it is and never becomes one of these.
Each error that goes to a peer carries \`data.origin\` (\`"gateway"\`) and \`data.code\` (the code below).
JSON-RPC codes above zero are decisions of the gateway; -32603 is a fault of the gateway or of what stands behind it.
"Retry" says whether the same message may succeed later, not whether it is safe to repeat.

| Code | HTTP | JSON-RPC | Retry | Log level | When |
| --- | --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
}

function httpCell({ http, alternateHttp: httpInstead, exitCode }: ErrorFacts): string {
  if (exitCode !== undefined) return `exit code ${exitCode}`;
  if (http === undefined) return "none";
  return httpInstead === undefined ? String(http) : `${http}; ${httpInstead.status} when ${httpInstead.when}`;
}
