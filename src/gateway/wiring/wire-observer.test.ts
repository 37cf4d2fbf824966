import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { messageBytes } from "../../protocol/message.ts";
import { createLogger } from "../../telemetry/log.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { createMeteringObserver } from "./wire-observer.ts";

describe("the meter tap", () => {
  it("counts messages by leg, direction and kind, and their bytes", () => {
    const metrics = createMetrics();
    const tap = createMeteringObserver("files", metrics, {
      log: createLogger({ level: "silent", pretty: false }),
      level: "debug",
    });
    const request = requestOf("tools/call", { name: "grüße" });
    const exchange = exchangeWith(request);
    tap.received("client", request, exchange);
    tap.sent("upstream", request, exchange);
    tap.received("upstream", notificationOf("notifications/message", {}), exchange);
    tap.received("upstream", resultOf({}), exchange);
    tap.sent("client", resultOf({}), exchange);
    const lines = metrics.text().split("\n");
    const counted = lines.filter((line) => /^headgate_messages_total.* [1-9]/u.test(line));
    expect(counted).toEqual([
      'headgate_messages_total{route="files",leg="client",direction="in",kind="request"} 1',
      'headgate_messages_total{route="files",leg="client",direction="out",kind="result"} 1',
      'headgate_messages_total{route="files",leg="upstream",direction="in",kind="notification"} 1',
      'headgate_messages_total{route="files",leg="upstream",direction="in",kind="result"} 1',
      'headgate_messages_total{route="files",leg="upstream",direction="out",kind="request"} 1',
    ]);
    const size = messageBytes(request).length;
    expect(lines).toContain(`headgate_bytes_total{leg="client",direction="in"} ${size}`);
  });
});
