import { expect, it } from "vitest";

import type { SharedStore, StartedTask } from "../../cluster/shared-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createSharedTasks } from "./shared-tasks.ts";

it("tells other gateways of tasks that began while the store was away, once, unless they are over", async () => {
  const noted: [string, StartedTask, number][] = [];
  let isAway = true;
  let now = 1000;
  const store: Pick<SharedStore, "noteTask"> = {
    noteTask: async (...note) => {
      if (isAway) throw new Error("no answer within 250 ms");
      noted.push(note);
    },
  };
  const warnings: unknown[] = [];
  const tasks = createSharedTasks({
    node: "one",
    log: { warn: (fields: unknown) => warnings.push(fields) } as unknown as Logger,
    wall: () => now,
    now: () => now,
    kept: undefined,
    store: () => store as SharedStore,
  });
  tasks.set("short", "ann", 1500);
  tasks.set("long", "ann", 9000);
  await tasks.whenNoted();
  expect(warnings).toHaveLength(2);
  await expect(tasks.tellMissed()).rejects.toThrow("no answer");
  isAway = false;
  now = 2000;
  await tasks.tellMissed();
  await tasks.tellMissed();
  expect(noted).toEqual([["long", { node: "one", owner: "ann" }, 7000]]);
});

it("tells a store that has lost everything again of tasks that began here, or only of those that began lately", async () => {
  const noted: [string, StartedTask, number][] = [];
  let now = 1000;
  const store: Pick<SharedStore, "noteTask" | "findTasks"> = {
    noteTask: async (...note) => {
      noted.push(note);
    },
    findTasks: async () => [{ node: "two", owner: "bob" }],
  };
  const tasks = createSharedTasks({
    node: "one",
    log: {} as Logger,
    wall: () => now,
    now: () => now,
    kept: undefined,
    store: () => store as SharedStore,
  });
  tasks.set("over", "ann", 1500);
  tasks.set("early", "ann", 9000);
  now = 2000;
  tasks.set("late", "cleo", 9000);
  await tasks.whenNoted();
  // Of those that began elsewhere, that gateway tells.
  await tasks.find(["other"]);
  noted.length = 0;
  await tasks.tellAgain(2000);
  expect(noted).toEqual([["late", { node: "one", owner: "cleo" }, 7000]]);
  await tasks.tellAgain(Number.NEGATIVE_INFINITY);
  expect(noted.slice(1)).toEqual([
    ["early", { node: "one", owner: "ann" }, 7000],
    ["late", { node: "one", owner: "cleo" }, 7000],
  ]);
});
