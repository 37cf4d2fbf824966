import { writeFile } from "node:fs/promises";

import {
  type ApprovedDefinition,
  definingExchanges,
  definitionKey,
  type DefinitionLock,
  type Drift,
  driftsOf,
  emptyLock,
  formatLock,
  offeredDefinitions,
  type OfferedDefinitions,
  parseLock,
  type DriftSeverity,
  withApproved,
} from "../../recorder/drift/compare.ts";
import { readRecordedTraffic } from "../../recorder/replay/recorded-call.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { thrownCode } from "../../lib/thrown-message.ts";
import { type Colors, colorsFor, type CommandIo } from "../io.ts";
import { readLines, resolveStore, routesInFolder } from "./recordings.ts";
import { printableLine } from "../text-layout.ts";

/** `headgate drift`: definitions that differ from the approved ones. */
export const drift = defineCommand("drift", async ({ values, positionals }, io: CommandIo) => {
  const [verb, ...names] = positionals;
  if (verb !== undefined && verb !== "approve")
    throw new UsageError(`unknown verb \`${verb}\`; expected \`approve\` or nothing`);
  const file = values.lock ?? "headgate.lock.json";
  const lock = await readLock(file, io);
  if (lock === emptyLock && verb === undefined)
    io.err(`headgate drift: there is no lock file ${file}; headgate drift approve writes it\n`);
  const store = await resolveStore({ store: values.store }, io);
  const { calls } = await readRecordedTraffic(readLines(store, io, definingExchanges), { leg: "upstream" });
  const recorded = [...offeredDefinitions(calls)];
  const routes = values.route === undefined ? await ownRoutes(values.store, recorded, io) : [values.route];
  const isSelected = (route: string) => routes?.some((own) => route === own || route.startsWith(`${own}/`)) ?? true;
  const offered = recorded.filter(([route]) => isSelected(route));
  if (verb === "approve") return approve(lock, file, offered, names, io);
  return reportDrift(lock, offered, values.json === true, io);
});

/**
 * The routes of the configuration in this folder, whose lock file this is: the default recording may also have the traffic
 * of gateways elsewhere. Undefined if all that is recorded counts.
 */
async function ownRoutes(
  store: string | undefined,
  recorded: readonly (readonly [route: string, unknown])[],
  io: CommandIo,
): Promise<readonly string[] | undefined> {
  const own = store === undefined ? await routesInFolder(io) : undefined;
  if (own === undefined) return undefined;
  const isOwn = (route: string): boolean => own.routes.some((name) => route === name || route.startsWith(`${name}/`));
  const others = recorded.map(([route]) => route).filter((route) => !isOwn(route));
  if (others.length > 0)
    io.err(
      `headgate drift: left out ${others.join(", ")}, not in ${own.file} of this folder; use --route for one of them\n`,
    );
  return own.routes;
}

async function readLock(file: string, io: CommandIo): Promise<DefinitionLock> {
  let text: string;
  try {
    text = await io.readFile(file);
  } catch (error) {
    // Nothing is approved yet.
    if (thrownCode(error) === "ENOENT") return emptyLock;
    throw error;
  }
  return parseLock(text, file);
}

async function approve(
  lock: DefinitionLock,
  file: string,
  offered: readonly (readonly [string, OfferedDefinitions])[],
  names: readonly string[],
  io: CommandIo,
): Promise<number> {
  let next = lock;
  let count = 0;
  const isSelected = (key: string): boolean => names.length === 0 || names.includes(key.slice(key.indexOf(" ") + 1));
  for (const [route, own] of offered) {
    const drifts = driftsOf(own, lock.routes[route] ?? {}).filter(({ key }) => isSelected(key));
    const keys = new Set(drifts.map(({ key }) => key));
    count += keys.size;
    next = withApproved(next, route, {
      approved: own.definitions.filter((definition) => keys.has(definitionKey(definition))),
      gone: drifts.flatMap(({ type, key }) => (type === "removed" ? [key] : [])),
      at: Date.now(),
    });
  }
  if (count === 0) {
    io.err("headgate drift: nothing to approve\n");
    return names.length === 0 ? exitCodes.ok.code : exitCodes.failed.code;
  }
  await writeFile(file, formatLock(next));
  io.out(`approved ${count} definitions in ${file}\n`);
  return exitCodes.ok.code;
}

function reportDrift(
  lock: DefinitionLock,
  offered: readonly (readonly [string, OfferedDefinitions])[],
  isJson: boolean,
  io: CommandIo,
): number {
  const colors = colorsFor(io);
  let count = 0;
  for (const [route, own] of offered) {
    const drifts = driftsOf(own, lock.routes[route] ?? {});
    count += drifts.length;
    for (const one of drifts) {
      if (isJson) io.out(`${JSON.stringify({ route, ...one })}\n`);
      else io.out(formatDrift(route, one, lock.routes[route]?.[one.key], own, colors));
    }
  }
  const total = offered.reduce((sum, [, own]) => sum + own.definitions.length, 0);
  if (!isJson)
    io.out(
      `${total} definitions of ${offered.length} ${offered.length === 1 ? "route" : "routes"}, ${count} differ from the approved ones\n`,
    );
  return count === 0 ? exitCodes.ok.code : exitCodes.failed.code;
}

const severityColors: Readonly<Record<DriftSeverity, keyof Colors>> = {
  info: "dim",
  warn: "yellow",
  critical: "red",
};

function formatDrift(
  route: string,
  { type, key, severity, fields, reasons }: Drift,
  approved: ApprovedDefinition | undefined,
  { definitions }: OfferedDefinitions,
  colors: Colors,
): string {
  const now = definitions.find((definition) => definitionKey(definition) === key);
  const lines = [
    `${colors[severityColors[severity]](`${severity} ${type}`)} ${printableLine(key)} ${colors.dim(`on route ${printableLine(route)}`)}`,
    ...reasons.map((reason) => `  ${printableLine(reason)}`),
    ...fields.flatMap((name) => [
      `  ${printableLine(name)}`,
      colors.red(`    - ${shorten(approved?.fields[name])}`),
      colors.green(`    + ${shorten(now?.fields[name])}`),
    ]),
  ];
  return `${lines.join("\n")}\n`;
}

function shorten(value: unknown): string {
  const text = printableLine(JSON.stringify(value) ?? "nothing");
  return text.length > 160 ? `${text.slice(0, 157)}…` : text;
}
