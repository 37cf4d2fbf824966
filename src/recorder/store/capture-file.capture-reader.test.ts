import { describe, expect, it } from "vitest";

import { captureOf } from "../../../test/support/capture.ts";
import type { CaptureLine } from "./store-contract.ts";
import { createCaptureReader } from "./capture-file.ts";

const lines = captureOf([
  { method: "tools/list" },
  {
    method: "tools/call",
    params: { name: "add" },
    before: [{ method: "notifications/progress", params: { progressToken: 1, progress: 1 } }],
  },
]);

describe("a capture in memory", () => {
  it("is read page by page in either direction", async () => {
    await using reader = await createCaptureReader(lines, "here");
    const first = await reader.exchanges({ limit: 2, order: "oldest" });
    expect(first.exchanges.map(({ id }) => id)).toEqual(["capture-1-x1", "capture-1-x2"]);
    const second = await reader.exchanges({ limit: 2, order: "oldest", cursor: first.next ?? "" });
    expect(second).toMatchObject({ exchanges: [{ id: "capture-1-x2-1" }] });
    expect(second.next).toBeUndefined();
    expect((await reader.exchanges({})).exchanges[0]?.id).toBe("capture-1-x2-1");
    await expect(reader.exchanges({ cursor: "x" })).rejects.toThrow("not a cursor");
  });

  it("has operations with all that belongs to them, and bodies that repeat others", async () => {
    await using reader = await createCaptureReader(lines, "here");
    const operation = await reader.operation("capture-1-x2-1");
    expect(operation?.exchanges.map(({ method }) => method)).toEqual(["tools/call", "notifications/progress"]);
    const frames = await reader.frames("capture-1", "capture-1-x2");
    expect(frames.map(({ body }) => body?.includes("jsonrpc"))).toEqual([true, true, true, true]);
    expect(await reader.exchange("capture-1-x")).toBeUndefined();
  });

  it("gives its lines again, all of them or whole operations", async () => {
    await using reader = await createCaptureReader(lines, "here");
    const framesOf = async (query: Parameters<typeof reader.export>[0]): Promise<readonly CaptureLine[]> => {
      const found: CaptureLine[] = [];
      for await (const line of reader.export(query)) if (line.type === "frame") found.push(line);
      return found;
    };
    expect(await framesOf({})).toEqual(lines.filter(({ type }) => type === "frame"));
    const where = { type: "is", field: "method", value: "notifications/progress" } as const;
    expect(await framesOf({ where })).toHaveLength(2);
    expect(await framesOf({ where, wholeOperations: true })).toHaveLength(6);
  });
});
