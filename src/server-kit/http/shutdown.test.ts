import { describe, expect, it } from "vitest";

import { createFakeKit } from "../../../test/support/fake-kit.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { ask, openKitClient, toolCall } from "../../../test/support/kit-client.ts";

describe("shutting down", () => {
  it("[KO-040] [KO-069] [KO-080] lets calls finish, then sends end and closes the streams", async () => {
    const { edge, core, time } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    await settled();
    let isDown = false;
    const down = edge.shutdown().then(() => {
      isDown = true;
    });
    await settled();
    expect((await edge.health()).status).toBe("stopping");
    for (const path of ["/mcp/sse", "/mcp/rpc", "/mcp/capabilities", "/mcp", "/api/x"]) {
      const refused = await ask(edge, path, { method: path === "/mcp/rpc" ? "POST" : "GET" });
      expect(refused.status).toBe(503);
      expect(refused.headers.has("retry-after")).toBe(true);
      expect(await refused.json()).toMatchObject({ error: "shutting_down" });
    }
    expect((await ask(edge, "/mcp/health")).status).toBe(503);
    await settled();
    expect(isDown).toBe(false);
    core.release();
    const events = await client.until("end");
    expect(events.map(({ event }) => event)).toEqual(["ack", "message", "result", "end"]);
    expect(await client.next()).toBeUndefined();
    await down;
    expect(time.pending()).toBe(0);
  });

  it("[KO-040] [KO-080] waits for calls no longer than shutdownTimeout", async () => {
    const { edge, core, time } = createFakeKit({ settings: { transport: { shutdownTimeout: "10s" } } });
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    await settled();
    const down = edge.shutdown();
    await time.advance(9999);
    expect(core.aborted()).toBe(0);
    await time.advance(1);
    expect(core.aborted()).toBe(1);
    expect((await client.until("end")).map(({ event }) => event)).not.toContain("result");
    await down;
  });

  it("[KO-080] does not wait for a reader that has stopped", async () => {
    const { edge, time } = createFakeKit();
    await ask(edge, "/mcp/sse");
    const down = edge.shutdown();
    await time.advance(5000);
    await down;
    expect((await edge.health()).activeConnections).toBe(0);
  });

  it("may be asked for twice", async () => {
    const { edge } = createFakeKit();
    await Promise.all([edge.shutdown(), edge.shutdown()]);
    expect((await edge.health()).status).toBe("stopping");
  });
});
