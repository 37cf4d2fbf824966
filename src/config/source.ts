import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";

import { scan, skipSpace } from "../protocol/json/scan.ts";
import type { ConfigFinding, Path } from "./problem.ts";
import { offsetInSource } from "./scalar-place.ts";

/** A place in a file, from 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** A file that was read: its values, and where they stand. */
export type Source =
  | {
      readonly ok: true;
      readonly tree: unknown;
      /** The place of a finding, or of what is nearest around it. */
      readonly placeOf: (
        finding: Pick<ConfigFinding, "path" | "key" | "offset">,
      ) => SourcePosition | undefined;
    }
  | {
      readonly ok: false;
      readonly faults: readonly (Partial<SourcePosition> & { readonly message: string })[];
    };

/** The forms in which a configuration can be written. */
export type SourceFormat = "yaml" | "json";

// Repeating a few parts by alias is fine, growing exponentially by them is not.
const maxAliases = 100;
const maxFaults = 10;
const maxDepth = 1000;

/** Reads YAML 1.2 (core schema, unique keys) or strict JSON. */
export function readSource(given: string, format: SourceFormat): Source {
  const lines = new LineCounter();
  const text = given.replace(/^\uFEFF/u, "");
  try {
    // Reading JSON gives no places, but JSON is YAML too.
    const document = parseDocument(text, {
      version: "1.2",
      schema: "core",
      uniqueKeys: true,
      prettyErrors: false,
      logLevel: "error",
      lineCounter: lines,
    });
    const json = format === "json" ? readJson(text) : undefined;
    if (json?.ok === false) return { ok: false, faults: [json.fault] };
    const faults = [...document.errors, ...document.warnings]
      .filter(({ code }) => json === undefined || code === "DUPLICATE_KEY")
      .slice(0, maxFaults)
      .map(({ code, message, pos }) => ({
        message: yamlErrors[code] ?? message,
        ...positionAt(lines, pos[0]),
      }));
    if (faults.length > 0) return { ok: false, faults };
    const tree: unknown = json === undefined ? document.toJS({ maxAliasCount: maxAliases }) : json.value;
    // A part that holds itself by alias would have no end; JSON has a word for that.
    JSON.stringify(tree);
    return {
      ok: true,
      tree,
      placeOf: ({ path, key, offset }) =>
        positionInScalar(text, document, lines, path, offset) ?? positionOf(document, lines, path, key),
    };
  } catch (error) {
    return { ok: false, faults: [{ message: describeReadError(error) }] };
  }
}

function describeReadError(error: unknown): string {
  if (error instanceof RangeError) return "is nested too deeply";
  return error instanceof TypeError ? "holds itself by alias" : "uses too many aliases";
}

const yamlErrors: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: "this key is there twice",
  MULTIPLE_DOCS: "a second document begins here",
};

type JsonReading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: Partial<SourcePosition> & { readonly message: string } };

function readJson(text: string): JsonReading {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    // What the engine says repeats a piece of the file, which may hold secrets, and seldom has a place.
    const bytes = Buffer.from(text);
    const found = scan(bytes, 0, maxDepth);
    const before = bytes
      .subarray(0, found.ok ? skipSpace(bytes, found.end, bytes.length) : found.offset)
      .toString();
    const line = before.split("\n").length;
    const column = before.length - before.lastIndexOf("\n");
    return { ok: false, fault: { message: "is not JSON from here on", line, column } };
  }
}

function positionOf(
  document: Document,
  lines: LineCounter,
  path: Path,
  key: string | undefined,
): SourcePosition | undefined {
  let node: unknown = document.contents;
  let place: SourcePosition | undefined;
  for (const step of key === undefined ? path : [...path, key]) {
    const inner = resolveAlias(node, document);
    if (isMap(inner)) {
      const pair = inner.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
      if (pair === undefined) break;
      place = nodePosition(pair.key, lines) ?? place;
      node = pair.value;
    } else if (isSeq(inner)) {
      node = inner.items[Number(step)];
      if (node === undefined) break;
      place = nodePosition(node, lines) ?? place;
    } else break;
  }
  return place;
}

/** The place of a character of the text at a path; undefined where there is none. */
function positionInScalar(
  text: string,
  document: Document,
  lines: LineCounter,
  path: Path,
  offset: number | undefined,
): SourcePosition | undefined {
  if (offset === undefined) return undefined;
  let node: unknown = document.contents;
  for (const step of path) {
    const inner = resolveAlias(node, document);
    node = isMap(inner) || isSeq(inner) ? inner.get(step, true) : undefined;
  }
  const scalar = resolveAlias(node, document);
  return isScalar(scalar) ? positionAt(lines, offsetInSource(text, scalar, offset)) : undefined;
}

function resolveAlias(node: unknown, document: Document): unknown {
  return isAlias(node) ? node.resolve(document) : node;
}

function nodePosition(node: unknown, lines: LineCounter): SourcePosition | undefined {
  const start = (node as Partial<Node> | null)?.range?.[0];
  return start === undefined ? undefined : positionAt(lines, start);
}

function positionAt(lines: LineCounter, offset: number): SourcePosition {
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}
