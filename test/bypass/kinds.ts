import { methodFacts, methodNames } from "../../src/protocol/methods.ts";
import { closed } from "./vault.ts";

/** A message whose id says another kind than its method. */
export interface KindAttempt {
  readonly name: string;
  readonly method: string;
  readonly hasId: boolean;
  readonly params: string;
}

/** Params that name something closed, whatever the method reads. */
const params = [
  `"name":${JSON.stringify(closed.tool)}`,
  `"arguments":{}`,
  `"uri":${JSON.stringify(closed.resource)}`,
  `"ref":{"type":"ref/prompt","name":${JSON.stringify(closed.prompt)}}`,
  `"taskId":"task-of-another"`,
  `"requestId":"1"`,
  `"progressToken":"1"`,
  `"progress":1`,
  `"level":"debug"`,
  `"notifications":{"resourceSubscriptions":[${JSON.stringify(closed.resource)}]}`,
].join(",");

const known = methodNames.flatMap((method): KindAttempt[] => {
  const hasId = methodFacts(method)?.kind === "notification";
  const attempt = (text: string): KindAttempt => ({
    name: hasId ? `${text} with an id` : `${text} without an id`,
    method: text,
    hasId,
    params,
  });
  const capitals = method.replaceAll(/(?:^|\/)[a-z]/gu, (letters) => letters.toUpperCase());
  return [attempt(method), attempt(capitals), attempt(method.toUpperCase())];
});

/** Every method of MCP with an id where it has none, or without one where it needs one, and names that look like them. */
export const kindAttempts: readonly KindAttempt[] = [
  ...known,
  ...["notifications/", "notifications/x", "notifications/tools/call", "Notifications/tools/call"].map((method) => ({
    name: `${method} with an id`,
    method,
    hasId: true,
    params,
  })),
  ...["re\u017fources/read", "ta\u017fks/cancel", "ta\u017f\u212a\u017f/cancel"].map((method) => ({
    name: `${JSON.stringify(method)} without an id`,
    method,
    hasId: false,
    params,
  })),
];
