import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createLiveFilter } from "./live.ts";

const request = requestOf("tools/call", { name: "delete_file", arguments: { path: "/etc/hosts" } });
const exchange = exchangeWith(request, { route: "files" });
const asked = InspectedMessage.of(exchange);
const answered = InspectedMessage.answering(exchange, request, resultOf({ content: [], isError: true }));

function matches(filter: string): readonly boolean[] {
  const live = createLiveFilter(filter);
  if (!live.ok) throw new Error(live.problem);
  return [live.matches(asked), live.matches(answered)];
}

describe("a filter for messages on their way", () => {
  it.each([
    ["~a", [true, true]],
    ["tool:delete_*", [true, true]],
    ["tool:delete_* ~q", [true, false]],
    ["tool:delete_* ~s", [false, true]],
    ["status:tool_error", [false, true]],
    ["error", [false, true]],
    ["route:files dir:c2s kind:request", [true, true]],
    ["route:other", [false, false]],
    ["!tool:delete_*", [false, false]],
    ["request:hosts", [true, true]],
    ["answer:hosts", [false, false]],
    ["method:/^tools/ (principal:anonymous | principal:ann)", [true, true]],
  ] as const)("%s", (filter, expected) => {
    expect(matches(filter)).toEqual(expected);
  });

  it("takes what is meant for a route as meant for its views", () => {
    const inView = InspectedMessage.of(exchangeWith(request, { route: "files/readers" }));
    const live = (filter: string): boolean => {
      const made = createLiveFilter(filter);
      return made.ok && made.matches(inView);
    };
    expect(["route:files tool:delete_*", "route:files/readers", "route:readers", "route:file"].map(live)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it.each([
    "dur:>1s",
    "server:>1s",
    "decision:deny",
    "denied",
    "rule:x",
    "gateway:cancelled",
    "modified",
    "redacted",
    "truncated",
    "since:1h",
    "before:1h",
    "capture:x",
    "trace:4b",
    "op:x",
    "tool:a (route:b | !dur:>1s)",
  ])("refuses what is known only afterwards: %s", (filter) => {
    expect(createLiveFilter(filter)).toMatchObject({ ok: false });
  });
});
