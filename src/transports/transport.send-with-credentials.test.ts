import { describe, expect, it } from "vitest";

import { GatewayError } from "../errors.ts";
import { anonymous, type CredentialProvider } from "../core/exchange.ts";
import { sendWithCredentials } from "./transport.ts";

const refusal = new GatewayError("upstream_unreachable", "refused", { details: { upstreamStatus: 401 } });

function numbered(canReplace: boolean): CredentialProvider {
  let count = 0;
  return {
    headersFor: async () => ({ authorization: `token-${++count}` }),
    invalidate: () => canReplace,
  };
}

async function sent(credentials: CredentialProvider, answers: readonly (string | GatewayError)[]) {
  const shown: (string | undefined)[] = [];
  const left = [...answers];
  const outcome = sendWithCredentials(credentials, anonymous, async ({ authorization }) => {
    shown.push(authorization);
    const answer = left.shift();
    if (answer instanceof GatewayError) throw answer;
    return answer;
  });
  return { shown, outcome: await outcome.catch((error: unknown) => error) };
}

describe("a request with credentials", () => {
  it("is sent once where it is taken", async () => {
    expect(await sent(numbered(true), ["fine"])).toEqual({ shown: ["token-1"], outcome: "fine" });
  });

  it("is sent once more with others after a 401, and no third time", async () => {
    expect(await sent(numbered(true), [refusal, "fine"])).toEqual({
      shown: ["token-1", "token-2"],
      outcome: "fine",
    });
    expect(await sent(numbered(true), [refusal, refusal, "fine"])).toEqual({
      shown: ["token-1", "token-2"],
      outcome: refusal,
    });
  });

  it("is not repeated where no others can be had, nor for another failure", async () => {
    expect((await sent(numbered(false), [refusal, "fine"])).outcome).toBe(refusal);
    const broken = new GatewayError("upstream_unreachable", "broken");
    expect((await sent(numbered(true), [broken, "fine"])).outcome).toBe(broken);
  });
});
