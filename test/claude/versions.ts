/**
 * What the suite is run with. The control protocol has no specification and changes often, so the versions are fixed;
 * a newer one goes in here once the suite passes with it.
 */
export const versions = {
  "@anthropic-ai/claude-code": "2.1.325",
  "@anthropic-ai/claude-agent-sdk": "0.3.325",
} as const;
