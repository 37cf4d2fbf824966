/** What stands directly in src/: a folder, or a file of its own. */
export type Unit = (typeof levels)[number][number];

/** Who may import whom: imports go down this list, never up. The lint configuration is generated from it. */
export const levels = [
  ["errors", "lib"],
  ["protocol"],
  ["core", "telemetry", "redact"],
  ["transports", "sessions", "auth", "policy", "recorder", "cluster"],
  ["config", "demo", "server-kit", "agent-kit", "kong", "bridge", "federation"],
  ["gateway"],
  ["cli", "index", "testing"],
] as const;

/** The units that are single files in src/ and not folders. */
export const rootFiles: ReadonlySet<Unit> = new Set(["errors", "index", "testing"]);

/** What users of the package import: nothing of ours imports it. */
export const surfaces: ReadonlySet<Unit> = new Set(["index", "testing"]);

/**
 * The rooms inside a unit, lowest first: a room imports rooms of lower rows only, never one of its own row. "." is
 * every file directly in the unit's folder that has no row of its own.
 */
export const rooms: Readonly<Partial<Record<Unit, readonly (readonly string[])[]>>> = {
  protocol: [["json"], ["."], ["sse", "http", "ids"], ["validation"], ["index.ts"]],
  core: [["."], ["interceptors"]],
  telemetry: [["."], ["otel"]],
  redact: [["detectors"], ["."]],
  transports: [["."], ["http", "streamable-http", "stdio", "shared"], ["legacy-sse"]],
  sessions: [["pending"], ["."]],
  recorder: [["."], ["filter"], ["store"], ["replay"], ["drift", "conversation"]],
  policy: [["provider", "pdp", "testing"], ["cel", "sideband", "audit"], ["authzen"], ["enforcement"], ["."]],
  "server-kit": [["stores", "sse", "auth"], ["entity"], ["settings"], ["tools"], ["http"], ["mcp", "adapters"], ["."]],
  "agent-kit": [["."], ["tools"], ["control"], ["agent"], ["index.ts"]],
  federation: [["names"], ["lists"], ["."]],
  bridge: [["."], ["legacy-to-modern", "modern-to-legacy"]],
  gateway: [
    ["context.ts"],
    ["upstream", "wiring", "evaluation"],
    ["passthrough"],
    ["route"],
    ["edge"],
    ["admin"],
    ["."],
  ],
  cli: [["."], ["client"], ["traffic"], ["policy", "serve"], ["main.ts"]],
};

/** The level-3 folders that a level-4 folder may use; config/ joins the fragments of all of them. */
const usedByLevelFour: Readonly<Partial<Record<Unit, readonly Unit[]>>> = {
  demo: [],
  "server-kit": ["transports", "auth"],
  "agent-kit": ["transports", "auth"],
  kong: ["policy"],
  bridge: ["transports", "sessions"],
  federation: ["transports"],
};

/** Whether code in `from` may import code in `to`. */
export function mayImport(from: Unit, to: Unit): boolean {
  if (from === to) return true;
  const [fromLevel, toLevel] = [levelOf(from), levelOf(to)];
  if (toLevel > fromLevel) return false;
  // lib/ may use errors.ts, which imports nothing.
  if (toLevel === 0 && fromLevel === 0) return to === "errors";
  // Sideways is for level 2 and the top units only: levels 3 and 4 get what they need handed in.
  if (toLevel === fromLevel) return fromLevel === 2 || fromLevel === 6;
  const narrowed = usedByLevelFour[from];
  return toLevel !== 3 || narrowed === undefined || narrowed.includes(to);
}

/** Whether a room of a unit may import another room of it. */
export function mayImportRoom(unit: Unit, from: string, to: string): boolean {
  const rows = rooms[unit];
  if (rows === undefined || from === to) return true;
  const rowOf = (room: string): number => rows.findIndex((row) => row.includes(room));
  return rowOf(to) < rowOf(from);
}

/** The room of a file, by its path inside the unit's folder. */
export function roomOf(unit: Unit, path: string): string {
  const [first = "", ...rest] = path.split("/");
  if (rest.length > 0) return first;
  return rooms[unit]?.some((row) => row.includes(first)) === true ? first : ".";
}

function levelOf(unit: Unit): number {
  return levels.findIndex((names) => (names as readonly Unit[]).includes(unit));
}
