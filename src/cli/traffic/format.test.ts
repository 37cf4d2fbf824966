import { describe, expect, it } from "vitest";

import { captureOf } from "../../../test/support/capture.ts";
import { createCaptureReader } from "../../recorder/store/capture-file.ts";
import { createColors } from "../io.ts";
import { formatConversation } from "./show.ts";
import { exchangeHeads, formatBytes, formatExchange, formatMs, listLayout } from "./format.ts";

const evil = "\u001B[2J\u202E";

describe("a recorded exchange on a terminal", () => {
  it("cannot steer the terminal, whatever stands in the capture", async () => {
    const lines = captureOf(
      [
        {
          method: `tools/${evil}`,
          params: { name: evil },
          result: { text: evil },
          context: { principal: evil, route: evil, session: evil, revision: evil, transport: evil },
          decision: { effect: evil, rule: evil, reason: evil, name: evil, read: [evil] },
        },
      ],
      evil,
    );
    await using reader = await createCaptureReader(lines, "here");
    const [record] = (await reader.exchanges({})).exchanges;
    const operation = await reader.operation(record?.id ?? "");
    if (record === undefined || operation === undefined) throw new Error("nothing was read");
    const frames = await reader.frames(record.capture, record.id);
    const options = { colors: createColors(false), maxBody: 1000 };
    const text = `${formatExchange(record, options.colors, listLayout(undefined))}\n${formatConversation(operation, [{ record, frames }], options)}`;
    expect(text).toContain("\\u001b[2J");
    for (const character of ["\u001B", "\u202E"]) expect(text).not.toContain(character);
  });

  it("fits into the terminal with its heads, from 60 columns on, whatever it holds", async () => {
    const long = "a-name-that-is-much-longer-than-any-column-".repeat(3);
    const lines = captureOf(
      [
        {
          method: "tools/call",
          params: { name: long },
          result: {},
          context: { principal: long, route: long, session: long, revision: "2026-07-28", transport: "http" },
          decision: { effect: "deny", rule: long },
        },
        { method: "notifications/resources/list_changed", params: {}, result: {} },
      ],
      "here",
    );
    await using reader = await createCaptureReader(lines, "here");
    const { exchanges } = await reader.exchanges({});
    expect(exchanges).toHaveLength(2);
    const plain = createColors(false);
    for (let columns = 60; columns <= 200; columns++) {
      const layout = listLayout(columns);
      const texts = [exchangeHeads(plain, layout), ...exchanges.map((one) => formatExchange(one, plain, layout))];
      for (const text of texts) expect(text.length, `${columns}: ${text}`).toBeLessThanOrEqual(columns);
    }
  });

  it("has durations and sizes with as many digits as they are worth", () => {
    expect([0.04, 12.34, 250.4, 1500, 250_000].map(formatMs)).toEqual([
      "0.0 ms",
      "12.3 ms",
      "250 ms",
      "1.50 s",
      "250 s",
    ]);
    expect([0, 512, 2048, 5_242_880].map(formatBytes)).toEqual(["0 B", "512 B", "2.0 KB", "5.0 MB"]);
  });
});
