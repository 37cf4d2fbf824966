import { configInFolder } from "../config-in-folder.ts";
import { defineCommand, refuseProgram, UsageError } from "../define-command.ts";
import { policyTest } from "./cases.ts";
import { policyExplain } from "./explain.ts";
import { policyReplay, type PolicyReplayIo } from "./replay.ts";

/** `headgate policy test`, `explain` and `replay`: evaluates rules without starting a gateway. */
export const policy = defineCommand("policy", async ({ values, positionals, program }, io: PolicyReplayIo) => {
  refuseProgram(program);
  const [verb, first, second, ...rest] = positionals;
  const { config = configInFolder(), route, principal, answer, principals, strict = false, json = false } = values;
  if (rest.length > 0) throw new UsageError("too many arguments");
  switch (verb) {
    case "test":
      if (first === undefined || second !== undefined) throw new UsageError("test takes one FILE of cases");
      return policyTest(first, io);
    case "explain":
      if (config === undefined) throw new UsageError("explain needs --config FILE, or a headgate.yaml in this folder");
      if (first === undefined) throw new UsageError("explain needs a METHOD, such as tools/call");
      return policyExplain({ config, method: first, params: second, principal, answer, route }, io);
    case "replay":
      if (config === undefined) throw new UsageError("replay needs --config FILE, or a headgate.yaml in this folder");
      if (first === undefined || second !== undefined) throw new UsageError("replay takes one CAPTURE");
      return policyReplay({ capture: first, config, route, principals, strict, json }, io);
    case undefined:
      throw new UsageError("expected `test`, `explain` or `replay`");
    default:
      throw new UsageError(`unknown verb \`${verb}\`; expected \`test\`, \`explain\` or \`replay\``);
  }
});
