/** What the exit codes of the commands mean; those of `tools` and `call` are those of the MCP Inspector. */
export const exitCodes = {
  ok: { code: 0, text: "It went well." },
  usage: { code: 1, text: "The arguments are wrong." },
  config: { code: 2, text: "The configuration is wrong." },
  unauthorized: { code: 3, text: "The server wants authorization." },
  unreachable: { code: 4, text: "The server cannot be reached, or does not speak MCP." },
  refused: { code: 5, text: "The tool answered with an error, or the server did, or it has no such tool." },
} as const;

/** The name of an exit code. */
export type ExitCodeName = keyof typeof exitCodes;
