import { vi } from "vitest";

/** For hangs, not for speed: far longer than anything takes on a busy machine, and shorter than a test may take. */
const limitMs = 30_000;

/** Waits for what must come; how long it takes depends on what else the machine has to do. */
export async function eventually<Value>(check: () => Value | Promise<Value>): Promise<Value> {
  return vi.waitFor(check, { timeout: limitMs });
}
