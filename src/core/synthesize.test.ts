import { describe, expect, it } from "vitest";

import { synthesizeMessage, synthesizeRequest, synthesizeResult } from "../core/synthesize.ts";

describe("a synthesized message", () => {
  it("is refused when it is invalid or of another kind", () => {
    expect(synthesizeRequest('{"jsonrpc":"2.0","id":1,"method":"ping"}').method).toBe("ping");
    expect(() => synthesizeMessage("{}")).toThrow("an invalid message");
    expect(() => synthesizeRequest('{"jsonrpc":"2.0","method":"x"}')).toThrow("not a request");
    expect(() => synthesizeResult('{"jsonrpc":"2.0","id":1,"method":"ping"}')).toThrow("not a result");
  });
});
