import * as conventions from "@opentelemetry/semantic-conventions/incubating";
import { describe, expect, it } from "vitest";
import { attributes, durationBounds, durations, executeTool } from "./semconv.ts";

const published = new Set<unknown>(Object.values(conventions));

describe("the names of the semantic conventions", () => {
  const foreign = Object.values(attributes).filter((name) => !name.startsWith("headgate."));

  it.each(foreign)("[SC-072] are published: %s", (name) => {
    expect(published).toContain(name);
  });

  it.each(Object.values(durations).map(({ name }) => name))("[SC-072] of metrics are published: %s", (name) => {
    expect(published).toContain(name);
  });

  it("call a tool call what they call it", () => {
    expect(executeTool).toBe(conventions.GEN_AI_OPERATION_NAME_VALUE_EXECUTE_TOOL);
  });

  it("have buckets in ascending order", () => {
    expect(durationBounds).toEqual(durationBounds.toSorted((one, other) => one - other));
  });
});
