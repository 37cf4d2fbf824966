import { features } from "../../test/matrix/features.ts";
import { meetings, type Meeting } from "../../test/matrix/places.ts";

const shortNames: Readonly<Record<string, string>> = {
  "Streamable HTTP": "HTTP",
  "HTTP+SSE": "SSE",
  stdio: "stdio",
  "in-process": "in-process",
};

/** The page of what works between which client and which server, made of what the end-to-end test tries. */
export function renderFeaturesPage(): string {
  const reasons: string[] = [];
  const cells = [...new Set(meetings.map(cellOf))].map((cell) =>
    renderCell(
      cell,
      meetings.filter((meeting) => cellOf(meeting) === cell),
      reasons,
    ),
  );
  const probed = features.map(({ name, probe }) => `- **${name}**: the client ${probe}.`).join("\n");
  const notes = reasons.map((reason, index) => `${index + 1}. ${reason}.`).join("\n");
  return `# Features between the eras

<!-- Made by scripts/generate.ts from test/matrix; the end-to-end tests try every field of these tables. -->

Legacy is every revision up to 2025-11-25, modern is 2026-07-28. A column is how the client comes to the gateway, and how the
gateway comes to the server; HTTP is Streamable HTTP, SSE the older HTTP+SSE.

${cells.join("\n\n")}

## Why not

${notes}

Tasks pass within an era. Between the eras there are none: those of 2025-11-25 and those of the extension are different things, so
they are not advertised, and calls run without one. What else has no form on the other side is listed in
[Bridge an old server](../guides/bridge.md).

## What is tried

${probed}
`;
}

function cellOf({ client, server }: Meeting): string {
  return `A ${client.era} client and a ${server.era} server`;
}

function renderCell(title: string, pairs: readonly Meeting[], reasons: string[]): string {
  const columns = pairs.map(
    ({ client, server }) => `${shortNames[client.transport]} → ${shortNames[server.transport]}`,
  );
  const rows = features.map(({ name, obstacle }) => {
    const fields = pairs.map((meeting) => {
      const reason = obstacle(meeting);
      if (reason === undefined) return "yes";
      if (!reasons.includes(reason)) reasons.push(reason);
      return `no (${reasons.indexOf(reason) + 1})`;
    });
    return [name, ...fields];
  });
  return `## ${title}\n\n${table(["", ...columns], rows)}`;
}

/** A Markdown table whose columns are as wide as their widest field. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (fields: readonly string[]): string =>
    `| ${fields.map((field, column) => field.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}
