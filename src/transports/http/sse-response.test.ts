import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createKeepAlive } from "./sse-response.ts";

describe("keep-alive", () => {
  it("reminds every stream at each interval, and runs no timer without streams", async () => {
    const time = createFakeTime();
    const keepAlive = createKeepAlive(1000, time.setTimer);
    let beats = 0;
    const stream = { keepAlive: () => beats++ };
    expect(time.pending()).toBe(0);
    keepAlive.add(stream);
    await time.advance(3000);
    expect(beats).toBe(3);
    keepAlive.delete(stream);
    await time.advance(2000);
    expect([beats, time.pending()]).toEqual([3, 0]);
  });

  it("takes up another interval with the next beat", async () => {
    const time = createFakeTime();
    const keepAlive = createKeepAlive(1000, time.setTimer);
    let beats = 0;
    keepAlive.add({ keepAlive: () => beats++ });
    keepAlive.setInterval(100);
    await time.advance(1000);
    expect(beats).toBe(1);
    await time.advance(1000);
    expect(beats).toBe(11);
    keepAlive.close();
    expect(time.pending()).toBe(0);
  });
});
