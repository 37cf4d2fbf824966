import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parse } from "yaml";
import { z } from "zod";

import { lanes, ways, type Lane, type Way } from "./lanes.ts";
import type { ExpectedFailures } from "./verdict.ts";

const folder = join(import.meta.dirname, "expected-failures");

const entries = z
  .record(
    z.string().regex(/^[^\s:]+(?::[^\s:]+)?$/u, "must be a scenario or scenario:check-id"),
    z.string({ error: "must say why it fails" }).min(1, "must say why it fails"),
  )
  .nullable();

/** What may fail in this lane on this way: nothing, where there is no file for them. */
export function expectedFailuresFor(way: Way, lane: Lane): ExpectedFailures {
  const file = join(folder, fileFor(way, lane));
  return existsSync(file) ? parseExpectedFailures(readFileSync(file, "utf8")) : new Map();
}

/** Reads a YAML mapping from `scenario` or `scenario:check-id` to the reason why it fails. Throws at anything else. */
export function parseExpectedFailures(yaml: string): ExpectedFailures {
  return new Map(Object.entries(entries.parse(parse(yaml)) ?? {}));
}

/** Files of expected failures that no lane and way read. */
export function strayFiles(): readonly string[] {
  const read = ways.flatMap((way) => lanes.map((lane) => fileFor(way, lane)));
  return existsSync(folder) ? readdirSync(folder).filter((file) => !read.includes(file)) : [];
}

function fileFor(way: Way, lane: Lane): string {
  return `${way}-${lane.name}.yaml`;
}
