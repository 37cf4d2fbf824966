import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";
import type { CliIo } from "../io.ts";
import { policyReplay, type PolicyReplayIo } from "./replay.ts";
import { policyExplain } from "./explain.ts";
import { policyTest } from "./cases.ts";

/** `headgate policy test`, `explain` and `replay`: tries rules out without starting anything. */
export async function policy(args: readonly string[], io: PolicyReplayIo): Promise<number> {
  const line = parseCommandLine(commands.policy.options, args);
  if (!line.ok) return reportUsage(io, line.problem);
  const [verb, first, second, ...rest] = line.positionals;
  const { config, route, principal, answer, principals, strict = false, json = false } = line.values;
  if (line.program !== undefined || rest.length > 0) return reportUsage(io, "too many arguments");
  switch (verb) {
    case "test":
      if (first === undefined || second !== undefined) return reportUsage(io, "test takes one FILE of cases");
      return policyTest(first, io);
    case "explain":
      if (config === undefined) return reportUsage(io, "explain needs --config FILE");
      if (first === undefined) return reportUsage(io, "explain needs a METHOD, such as tools/call");
      return policyExplain({ config, method: first, params: second, principal, answer, route }, io);
    case "replay":
      if (config === undefined) return reportUsage(io, "replay needs --config FILE");
      if (first === undefined || second !== undefined) return reportUsage(io, "replay takes one CAPTURE");
      return policyReplay({ capture: first, config, route, principals, strict, json }, io);
    case undefined:
      return reportUsage(io, "needs `test`, `explain` or `replay`");
    default:
      return reportUsage(io, `there is no \`${verb}\`; there are \`test\`, \`explain\` and \`replay\``);
  }
}

function reportUsage(io: CliIo, problem: string): number {
  io.err(usageError("policy", problem));
  return exitCodes.usage.code;
}
