import { createRequire } from "node:module";
import type { DatabaseSync, DatabaseSyncOptions } from "node:sqlite";

import type * as Cel from "@marcbachmann/cel-js";
import type * as Jose from "jose";
import type * as Re2 from "re2js";
import type * as Yaml from "yaml";

/*
 * Modules that are loaded on first use, for a faster start. Needed by bench load: "listens after the start of the
 * process".
 */

const load: (name: string) => unknown = createRequire(import.meta.url);
const loaded = new Map<string, unknown>();

function once(name: string): unknown {
  if (!loaded.has(name)) loaded.set(name, load(name));
  return loaded.get(name);
}

export const cel = (): typeof Cel => once("@marcbachmann/cel-js") as typeof Cel;
export const jose = (): typeof Jose => once("jose") as typeof Jose;
export const re2 = (): typeof Re2 => once("re2js") as typeof Re2;
export const yaml = (): typeof Yaml => once("yaml") as typeof Yaml;

/**
 * The values of `node:http`. An import of them reads everything that it exports, and its web sockets bring Node's own copy of undici:
 * 35 ms of processor time and 14 MB.
 */
export const nodeHttp = process.getBuiltinModule("node:http");

/**
 * Opens a SQLite database. Loaded lazily, so that node-version.ts can report the needed version on a Node without
 * SQLite.
 */
export function openDatabase(file: string | URL, options: DatabaseSyncOptions = {}): DatabaseSync {
  return new (process.getBuiltinModule("node:sqlite").DatabaseSync)(file, options);
}
