/** What stands directly in src/: a folder, or a file of its own. */
export type Unit = (typeof levels)[number][number];

/** Who may import whom: imports go down this list, never up. The lint configuration must agree with it. */
export const levels = [
  ["errors"],
  ["protocol"],
  ["exchange", "pipeline", "reply", "intercept", "state", "telemetry", "redact"],
  ["transports", "sessions", "auth", "policy", "recorder"],
  ["config", "demo", "server-kit", "agent-kit", "kong", "bridge"],
  ["gateway"],
  ["cli", "index", "testing"],
] as const;

/** The units that are single files in src/ and not folders. */
export const rootFiles: ReadonlySet<Unit> = new Set([
  "errors",
  "exchange",
  "pipeline",
  "reply",
  "index",
  "testing",
]);

/** What users of the package import: nothing of ours imports it. */
export const surfaces: ReadonlySet<Unit> = new Set(["index", "testing"]);

/** The level-3 folders that a level-4 folder may use; config/ joins the fragments of all of them. */
const usedByLevelFour: Readonly<Partial<Record<Unit, readonly Unit[]>>> = {
  demo: [],
  "server-kit": ["transports", "auth"],
  "agent-kit": ["transports", "auth"],
  kong: ["policy"],
  bridge: ["transports", "sessions"],
};

/** Whether code in `from` may import code in `to`. */
export function mayImport(from: Unit, to: Unit): boolean {
  if (from === to) return true;
  const [fromLevel, toLevel] = [levelOf(from), levelOf(to)];
  if (toLevel > fromLevel) return false;
  // Sideways is for level 2 and the two top units only: levels 3 and 4 get what they need handed in.
  if (toLevel === fromLevel) return fromLevel === 2 || fromLevel === 6;
  const narrowed = usedByLevelFour[from];
  return toLevel !== 3 || narrowed === undefined || narrowed.includes(to);
}

function levelOf(unit: Unit): number {
  return levels.findIndex((names) => (names as readonly Unit[]).includes(unit));
}
