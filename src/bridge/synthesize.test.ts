import { describe, expect, it } from "vitest";

import { synthesizeMessage, synthesizeRequest, synthesizeResult } from "./synthesize.ts";

describe("a synthesized message", () => {
  it("must be a message of the kind it should be", () => {
    expect(synthesizeRequest('{"jsonrpc":"2.0","id":1,"method":"ping"}').method).toBe("ping");
    expect(() => synthesizeMessage("{}")).toThrow("no message");
    expect(() => synthesizeRequest('{"jsonrpc":"2.0","method":"x"}')).toThrow("no request");
    expect(() => synthesizeResult('{"jsonrpc":"2.0","id":1,"method":"ping"}')).toThrow("no result");
  });
});
