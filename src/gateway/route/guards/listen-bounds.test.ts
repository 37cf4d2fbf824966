import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../../test/support/exchange.ts";
import { requestOf } from "../../../../test/support/messages.ts";
import { createListenBounds, maxListened } from "./listen-bounds.ts";

const guard = createListenBounds();
const names = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `x://${index}`);

describe("a request to listen", () => {
  it.each(["resourceSubscriptions", "taskIds"])("names a bounded number of %s", (list) => {
    const enter = (count: number) =>
      guard.enter(exchangeWith(requestOf("subscriptions/listen", { notifications: { [list]: names(count) } })));
    expect(enter(maxListened)).toBeUndefined();
    expect(enter(maxListened + 1)).toMatchObject({
      code: "invalid_params",
      message: `params.notifications.${list} has 1001 entries, at most 1000; send several requests`,
    });
  });

  it.each([{}, { notifications: null }, { notifications: [1] }, { notifications: { taskIds: "x" } }])(
    "is left to the server where it is malformed: %j",
    (params) => {
      expect(guard.enter(exchangeWith(requestOf("subscriptions/listen", params)))).toBeUndefined();
    },
  );

  it("is nothing that other methods or servers send", () => {
    const params = { notifications: { taskIds: names(maxListened + 1) } };
    expect(guard.enter(exchangeWith(requestOf("tools/call", params)))).toBeUndefined();
    const sent = exchangeWith(requestOf("subscriptions/listen", params), { direction: "server-to-client" });
    expect(guard.enter(sent)).toBeUndefined();
  });
});
