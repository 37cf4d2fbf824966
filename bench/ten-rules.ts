/** Ten rules for calls and ten for answers; the last ones let the benchmark's tool pass. */
export const tenRules = {
  rules: [
    ...Array.from({ length: 4 }, (_, index) => ({
      id: `deny-${index}`,
      deny: `mcp.tool.startsWith("delete_${index}") && !("admin" in principal.scopes)`,
    })),
    { id: "deny-size", deny: 'mcp.tool == "transfer" && mcp.arguments.amount > 10000' },
    { id: "deny-path", deny: 'has(mcp.arguments.path) && mcp.arguments.path.contains("..")' },
    { id: "deny-file", deny: 'mcp.resource.startsWith("file:///etc/")' },
    { id: "allow-admin", allow: '"admin" in principal.scopes' },
    { id: "allow-prompt", allow: 'mcp.prompt != ""' },
    { id: "allow-tools", allow: 'mcp.tool in ["echo", "stream"] || mcp.tool.startsWith("tool_")' },
  ],
  results: [
    ...Array.from({ length: 8 }, (_, index) => ({
      id: `dump-${index}`,
      deny: `mcp.tool == "dump_${index}"`,
    })),
    { id: "internal", deny: 'mcp.tool.startsWith("internal_")' },
    { id: "redact", apply: 'mcp.tool == "who"', redact: ["/structuredContent/salary"] },
  ],
  lists: [{ id: "tenth", deny: 'entry.name.endsWith("0")' }],
};
