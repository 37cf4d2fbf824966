import { vi } from "vitest";

/** Waits for what must come; how long it takes depends on what else the machine has to do. */
export async function eventually<Value>(check: () => Value | Promise<Value>): Promise<Value> {
  return vi.waitFor(check, { timeout: 15_000 });
}
