import { constants, PerformanceObserver } from "node:perf_hooks";

import { expect, it } from "vitest";

import { createPartCounter, notePart } from "./large-parts.ts";

const megabyte = 1 << 20;

it("has buffers collected after every 2 MB of large parts", () => {
  let collections = 0;
  const note = createPartCounter(() => {
    collections++;
  });
  const after = Array.from({ length: 24 }, () => {
    note(megabyte);
    return collections;
  });
  expect(after.filter((count, index) => count !== Math.floor((index + 1) / 2))).toEqual([]);
});

it("counts no small parts", () => {
  let collections = 0;
  const note = createPartCounter(() => {
    collections++;
  });
  for (let part = 0; part < 10_000; part++) note(1024);
  expect(collections).toBe(0);
});

it("collects the young generation only", async () => {
  const { promise: collected, resolve } = Promise.withResolvers<unknown>();
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { kind, flags } = Reflect.get(entry, "detail") as { readonly kind: number; readonly flags: number };
      if ((flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0) resolve(kind);
    }
  });
  observer.observe({ entryTypes: ["gc"] });
  for (let part = 0; part < 2; part++) notePart(megabyte);
  expect(await collected).toBe(constants.NODE_PERFORMANCE_GC_MINOR);
  observer.disconnect();
});
