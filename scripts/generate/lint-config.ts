// Writes the import levels into .oxlintrc.json; everything else in that file is written by hand.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { levels, mayImport, mayImportRoom, rooms, rootFiles, surfaces, type Unit } from "./import-levels.ts";

type Pattern = { readonly message: string } & ({ readonly regex: string } | { readonly group: readonly string[] });

interface Override {
  readonly files: readonly string[];
  readonly excludeFiles?: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

const file = resolve(import.meta.dirname, "../../.oxlintrc.json");
const units: readonly Unit[] = levels.flat();
const tests = "**/*.test.ts";
/** How deep folders go below a unit's own: room, folder in a room. */
const depths = [0, 1, 2];

const impureModules =
  "^(?:node:)?(?:async_hooks|child_process|cluster|dgram|diagnostics_channel|dns|fs|http|http2|https|inspector|module|net|os|perf_hooks|process|readline|repl|sqlite|stream|test|timers|tls|tty|v8|vm|worker_threads|zlib)(?:/|$)";
const pure: Pattern = {
  regex: impureModules,
  message: "src/protocol/ is pure: bytes in, values out, no I/O.",
};

/** The console runs in a browser: of the gateway it knows the types of what the admin API answers. */
const consoleRules: Override = {
  files: ["console/src/**"],
  excludeFiles: [tests],
  rules: {
    "no-restricted-imports": [
      "error",
      {
        patterns: [
          {
            regex: "^(?:\\.\\./){2,}src/",
            allowTypeImports: true,
            message: "console/ may import types of src/, and nothing else of it.",
          },
          { regex: "^node:", message: "The console runs in a browser." },
        ],
      },
    ],
    // Types of src/ bring those of Node along.
    "no-restricted-globals": ["error", "process", "Buffer", "global", "require", "setImmediate"],
  },
};

/** The lint configuration with its import levels as the table says. */
export function renderLintConfig(): string {
  const config = JSON.parse(readFileSync(file, "utf8")) as { overrides: Override[] };
  const own = config.overrides.filter((override) => override.rules["no-restricted-imports"] === undefined);
  config.overrides = [...units.flatMap(overridesOf), consoleRules, ...own];
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

function overridesOf(unit: Unit): readonly Override[] {
  if (surfaces.has(unit)) return [];
  if (rootFiles.has(unit))
    return [restrict([`src/${unit}.ts`], [{ regex: "^\\.", message: `${unit}.ts imports nothing of ours.` }])];
  const purity = unit === "protocol" ? [pure] : [];
  return [
    // Tests may reach across rooms, and in protocol/ use files.
    ...depths.flatMap((depth) => restrict([`${glob(unit, depth)}/*.test.ts`], unitPatterns(unit, depth))),
    ...roomsOf(unit).flatMap((room) => {
      const isFile = room.endsWith(".ts");
      return depths
        .filter((depth) => (room === "." || isFile ? depth === 0 : depth > 0))
        .map((depth) => {
          const files =
            room === "."
              ? `src/${unit}/*.ts`
              : isFile
                ? `src/${unit}/${room}`
                : `src/${unit}/${room}${"/*".repeat(depth - 1)}/*.ts`;
          const patterns = [...unitPatterns(unit, depth), ...roomPatterns(unit, room, depth), ...purity];
          const apart = room === "." ? namedFiles(unit).map((name) => `src/${unit}/${name}`) : [];
          return restrict([files], patterns, [tests, ...apart]);
        });
    }),
  ].filter(({ rules }) => rules["no-restricted-imports"] !== undefined);
}

function roomsOf(unit: Unit): readonly string[] {
  return rooms[unit]?.flat() ?? [".", "*"];
}

/** The files of a unit's folder that have a row of their own. */
function namedFiles(unit: Unit): readonly string[] {
  return (rooms[unit] ?? []).flat().filter((room) => room.endsWith(".ts"));
}

function glob(unit: Unit, depth: number): string {
  return `src/${unit}${"/*".repeat(depth)}`;
}

/** Forbids other units, named from a file so many folders below its unit's. */
function unitPatterns(unit: Unit, depth: number): readonly Pattern[] {
  const forbidden = units.filter((other) => !mayImport(unit, other) && !surfaces.has(other));
  if (forbidden.length === 0) return [];
  const names = forbidden.map((other) => (rootFiles.has(other) ? `${other}\\.ts$` : `${other}/`));
  const allowed = units.filter((other) => other !== unit && mayImport(unit, other) && !surfaces.has(other));
  return [
    {
      regex: `^${"\\.\\./".repeat(depth + 1)}(?:${names.join("|")})`,
      message: `${unit}/ may import ${allowed.join(", ")}; what it needs of others is passed in.`,
    },
  ];
}

/** Forbids rooms of the same or a higher row. */
function roomPatterns(unit: Unit, room: string, depth: number): readonly Pattern[] {
  const rows = rooms[unit];
  if (rows === undefined) return [];
  const forbidden = rows.flat().filter((other) => !mayImportRoom(unit, room, other));
  const below = rows.flat().filter((other) => other !== room && mayImportRoom(unit, room, other));
  const prefix = depth === 0 ? "\\./" : "\\.\\./".repeat(depth);
  const message = `${unit}/${room} may import ${below.length === 0 ? "no other room" : `the rooms ${below.join(", ")}`} of ${unit}/.`;
  return forbidden.flatMap((other): Pattern[] => {
    if (other !== ".")
      return [
        {
          regex: `^${prefix}${other.endsWith(".ts") ? `${other.replace(".", "\\.")}$` : `${other}/`}`,
          message,
        },
      ];
    const allowed = namedFiles(unit).filter((name) => mayImportRoom(unit, room, name));
    if (allowed.length === 0) return [{ regex: `^${prefix}[^/]+\\.ts$`, message }];
    // The linter's regular expressions have no lookahead.
    const up = depth === 0 ? "./" : "../".repeat(depth);
    return [{ group: [`${up}*.ts`, ...allowed.map((name) => `!${up}${name}`)], message }];
  });
}

function restrict(files: readonly string[], patterns: readonly Pattern[], excludeFiles?: readonly string[]): Override {
  const exclude = excludeFiles === undefined ? {} : { excludeFiles };
  if (patterns.length === 0) return { files, ...exclude, rules: {} };
  return { files, ...exclude, rules: { "no-restricted-imports": ["error", { patterns }] } };
}
