import type { ProcessTree } from "./process-table.ts";

/** The line that tells the watchdog of a family. */
export function formatWatchLine(family: ProcessTree): string {
  return `+${JSON.stringify([family.leader, family.marker, family.startedAt ?? null])}\n`;
}

/** The line that tells it that a family has gone. */
export function formatForgetLine(family: ProcessTree): string {
  return `-${family.leader}\n`;
}

/** Brings the families up to date with one line; what is no such line changes nothing. */
export function applyWatchdogLine(families: Map<number, ProcessTree>, line: string): void {
  if (line.startsWith("-")) {
    families.delete(Number(line.slice(1)));
    return;
  }
  const family = line.startsWith("+") ? parseProcessTree(line.slice(1)) : undefined;
  if (family !== undefined) families.set(family.leader, family);
}

function parseProcessTree(text: string): ProcessTree | undefined {
  const [leader, marker, startedAt] = parseList(text);
  // Signals to 0 and 1 and their negatives would reach everybody.
  if (typeof leader !== "number" || !Number.isSafeInteger(leader) || leader <= 1) return undefined;
  if (typeof marker !== "string" || marker === "") return undefined;
  return { leader, marker, startedAt: typeof startedAt === "number" ? startedAt : undefined };
}

function parseList(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
