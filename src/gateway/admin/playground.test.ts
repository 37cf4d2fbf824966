import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { describe, expect, it } from "vitest";

import { type PlayEvent, startCall } from "./playground.ts";

/** A server that takes requests and never answers. */
async function startSilentServer() {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    [Symbol.dispose]: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("a call of the playground", () => {
  it("is cancelled some time after nobody follows it any more", async () => {
    using server = await startSilentServer();
    const timers: (() => void)[] = [];
    const setTimer = (_ms: number, callback: () => void) => {
      timers.push(callback);
      return () => {};
    };
    const call = startCall({ url: server.url }, { method: "tools/call", params: { name: "add" } }, setTimer);
    const over = Promise.withResolvers<PlayEvent>();
    const stop = call.listen(() => {});
    expect(timers).toEqual([]);
    stop();
    // A page that is back in time goes on.
    const stopAgain = call.listen((event) => over.resolve(event));
    for (const end of timers.splice(0)) end();
    stopAgain();
    call.listen((event) => over.resolve(event))();
    for (const end of timers.splice(0)) end();
    call.listen((event) => over.resolve(event));
    expect(await over.promise).toMatchObject({ type: "failed" });
  });
});
