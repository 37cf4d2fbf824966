/** What to write in the filter, and what it finds; a test reads each with the parser of the gateway. */
export const filterHelp: readonly (readonly [filter: string, meaning: string])[] = [
  ["tool:delete_*", "calls of tools, by name"],
  ["method:tools/call", "messages by method"],
  ["uri:file:///etc/*", "resources that were read"],
  ["denied", "refused by policy"],
  ["rule:no-deletes", "decided by a rule"],
  ["error", "failed, by the server or on the way"],
  ["status:refused", "by outcome"],
  ["modified", "changed by the gateway"],
  ["open", "still running"],
  ["dur:>500ms", "slower than that; server: for the server's part"],
  ["since:10m", "of the last minutes, hours (1h) or days (7d)"],
  ["principal:ann", "by caller; also client:, session: and route:"],
  ["text:invoice", "what messages say; also request: and answer:"],
  ["(tool:a or tool:b) and not error", "together, either, not"],
];
