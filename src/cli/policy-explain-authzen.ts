import type { RouteConfig } from "../config/config.ts";
import type { InspectedMessage } from "../intercept/subject.ts";
import { mappingOptions } from "../policy/authzen/provider.ts";
import { planEvaluation } from "../policy/authzen/question.ts";

/** The settings of an AuthZEN decision point. */
type AuthZenConfig = NonNullable<NonNullable<RouteConfig["policy"]>["authzen"]>;

/** What an AuthZEN decision point would be asked about a message, in lines; nobody is asked. */
export function describeAuthZenRequest(subject: InspectedMessage, config: AuthZenConfig): readonly string[] {
  if (subject.phase === "response")
    return ["allow: answers are passed on as the decision on the request says"];
  // What a server declares is known only to a gateway that runs.
  const question = planEvaluation(subject, mappingOptions(config, undefined));
  switch (question.type) {
    case "pass":
      return ["allow: nobody is asked about this"];
    case "refuse": {
      const { kind, code, reason } = question.refusal;
      return [`deny (${kind}, ${code}): nobody is asked`, `  the agent is told: ${reason}`];
    }
    case "ask": {
      const isCall = subject.method === "tools/call";
      return [
        `${config.url} would be asked, by the ${question.mapping} mapping:`,
        `  ${question.text.body}`,
        ...(isCall && question.mapping === "default" && config.declaredMappings === "use"
          ? ["  note: a mapping that the tool declares would be used instead; it is not known here"]
          : []),
      ];
    }
  }
}
