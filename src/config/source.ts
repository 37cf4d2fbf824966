import type { Document, ErrorCode, LineCounter, Node, Scalar } from "yaml";

import { yaml } from "../lib/lazy-modules.ts";
import { parseToml, TomlError } from "../lib/text/toml.ts";
import { scan, skipSpace } from "../protocol/json/scan.ts";
import type { ConfigFinding, Path } from "./issues.ts";

/** A position in a file, from 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** A parsed file: its values and their positions. */
export type Source =
  | {
      readonly ok: true;
      readonly tree: unknown;
      /** The position of a finding, or of the nearest parent. */
      readonly placeOf: (finding: Pick<ConfigFinding, "path" | "key" | "offset">) => SourcePosition | undefined;
    }
  | {
      readonly ok: false;
      readonly faults: readonly (Partial<SourcePosition> & { readonly message: string })[];
    };

/** Formats of a configuration file. */
export type SourceFormat = "yaml" | "json" | "toml";

/** The format of a file by the ending of its name; YAML if that says nothing. */
export function sourceFormatOf(ending: string): SourceFormat {
  return formats[ending.toLowerCase()] ?? "yaml";
}

const formats: Readonly<Record<string, SourceFormat>> = { ".json": "json", ".jsonc": "json", ".toml": "toml" };

// Aliases may repeat some parts, but not expand exponentially.
const maxAliases = 100;
const maxFaults = 10;
const maxDepth = 1000;

/** Parses YAML 1.2 (core schema, unique keys), JSON, which may have comments and trailing commas, or TOML. */
export function readSource(given: string, format: SourceFormat): Source {
  const bare = given.replace(/^\uFEFF/u, "");
  if (format === "toml") return readToml(bare);
  const text = format === "json" ? withoutComments(bare) : bare;
  try {
    const json = format === "json" ? readJson(text) : undefined;
    if (json?.ok === false) return { ok: false, faults: [json.fault] };
    // Positions are only needed for problems, and a start without the YAML parser is quicker.
    if (json !== undefined && hasUniqueNames(text)) {
      return { ok: true, tree: json.value, placeOf: (finding) => placeIn(text, parseYaml(text), finding) };
    }
    const parsed = parseYaml(text);
    const { document, lines } = parsed;
    const faults = [...document.errors, ...document.warnings]
      .filter(({ code }) => json === undefined || code === "DUPLICATE_KEY")
      .map(({ code, message, pos }) => ({
        message:
          code === "DUPLICATE_KEY"
            ? describeDuplicate(text.slice(pos[0]))
            : (yamlErrors[code] ?? inPlainWords(message)),
        ...positionAt(lines, pos[0]),
      }))
      // One mistake often makes the parser stumble several times in a line.
      .filter(({ line }, index, all) => all.findIndex((other) => other.line === line) === index)
      .slice(0, maxFaults);
    if (faults.length > 0) return { ok: false, faults };
    const dangling = json === undefined ? danglingAlias(document) : undefined;
    if (dangling !== undefined)
      return { ok: false, faults: [{ message: aliasMessage, ...positionAt(lines, dangling) }] };
    const tree: unknown = json === undefined ? document.toJS({ maxAliasCount: maxAliases }) : json.value;
    // Throws a TypeError if an alias refers to its own parent.
    JSON.stringify(tree);
    return { ok: true, tree, placeOf: (finding) => placeIn(text, parsed, finding) };
  } catch (error) {
    return { ok: false, faults: [{ message: describeReadError(error) }] };
  }
}

/** A document with the places of its lines. JSON.parse gives no positions; JSON is also YAML. */
interface ParsedYaml {
  readonly document: Document;
  readonly lines: LineCounter;
}

function parseYaml(text: string): ParsedYaml {
  const { LineCounter: Lines, parseDocument } = yaml();
  const lines = new Lines();
  const document = parseDocument(text, {
    version: "1.2",
    schema: "core",
    uniqueKeys: true,
    // `1.10` and `null` are names as they are written, not a number and nothing.
    stringKeys: true,
    prettyErrors: false,
    logLevel: "error",
    lineCounter: lines,
  });
  return { document, lines };
}

function placeIn(
  text: string,
  { document, lines }: ParsedYaml,
  { path, key, offset }: Pick<ConfigFinding, "path" | "key" | "offset">,
): SourcePosition | undefined {
  return positionInScalar(text, document, lines, path, offset) ?? positionOf(document, lines, path, key);
}

/** Whether no object of a JSON text has two members of one name. False if it is nested too deeply to say. */
function hasUniqueNames(text: string): boolean {
  const found = scan(Buffer.from(text), 0, maxDepth);
  return found.ok && found.duplicateAt < 0;
}

function describeReadError(error: unknown): string {
  if (error instanceof RangeError) return "is nested too deeply";
  return error instanceof TypeError
    ? "contains itself by alias; write the value out"
    : "uses too many aliases; write the values out";
}

const aliasMessage = "no anchor has this name; put a value that begins with `*` or `&` in quotes";

/**
 * Remedies for errors of the YAML parser. The parser's own messages often quote the file, which may contain secrets.
 */
const yamlErrors: Readonly<Partial<Record<ErrorCode, string>>> = {
  ALIAS_PROPS: aliasMessage,
  BAD_ALIAS: aliasMessage,
  BAD_COLLECTION_TYPE: "a value that begins with `!` is a YAML tag; put it in quotes",
  BLOCK_IN_FLOW: "not expected between brackets; check that every `{` and `[` above is closed",
  BAD_DIRECTIVE: "a line that begins with `%` is a YAML directive; put the value in quotes",
  BAD_DQ_ESCAPE: "unknown escape in double quotes; write `\\\\` for a backslash, or use single quotes",
  BAD_SCALAR_START: "a value that begins with this character needs quotes",
  BLOCK_AS_IMPLICIT_KEY: "a second `:` in a line; put the value in quotes, or check the indentation",
  NON_STRING_KEY: "a key in `{` or `[`; put a text with braces in quotes",
  MULTILINE_IMPLICIT_KEY: "not a key; write `key: value`, and check the indentation",
  MULTIPLE_DOCS: "a second document starts here; keep one, and take out the `---`",
  TAB_AS_INDENT: "a tab; indent with spaces",
  TAG_RESOLVE_FAILED: "a value that begins with `!` is a YAML tag; put it in quotes",
  UNEXPECTED_TOKEN: "not expected here; put the whole value in quotes, or check the indentation",
};

/** Messages of the parser that say little to those who do not know its terms. */
const parserTerms: readonly (readonly [term: RegExp, meaning: string])[] = [
  [
    /^Flow (?:map|sequence) in block collection/u,
    "a `{` or `[` above is not closed, or what is inside is not indented",
  ],
  [/^Implicit map keys need to be followed by map values/u, "a key without `:` and a value"],
  [/^Missing closing (?<quote>["'])quote/u, "a quote above is not closed"],
  [/^Missing , (?:or : )?between/u, "a comma is missing before this"],
  [/^Maximum call stack/u, "nested too deeply"],
  [/at most 1024 chars/u, "a key of more than 1024 characters; check the quotes and the `:`"],
  [/^(?:All (?:mapping|sequence) items|The .* must start at the same)/u, "not indented like the entries above it"],
];

function inPlainWords(message: string): string {
  return parserTerms.find(([term]) => term.test(message))?.[1] ?? message;
}

function describeDuplicate(text: string): string {
  const key = /^["']?(?<key>[\w$.-]+)/u.exec(text)?.groups?.["key"];
  return key === undefined ? "duplicate key; keep one" : `duplicate key \`${key}\`; keep one`;
}

/** The offset of the first alias without an anchor. */
function danglingAlias(document: Document): number | undefined {
  let offset: number | undefined;
  const { visit } = yaml();
  visit(document, {
    Alias: (_, node) => {
      if (node.resolve(document) !== undefined) return undefined;
      offset = node.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}

type JsonReading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: Partial<SourcePosition> & { readonly message: string } };

/** JSON as editors write it, with comments and trailing commas blanked out, so that positions stay. */
function withoutComments(text: string): string {
  const blank = (found: string): string => found.replaceAll(/[^\n]/gu, " ");
  return text
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//gu, (found) =>
      found.startsWith('"') ? found : blank(found),
    )
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])/gu, (found) => (found === "," ? " " : found));
}

function readToml(text: string): Source {
  try {
    return { ok: true, tree: parseToml(text), placeOf: () => undefined };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    return { ok: false, faults: [{ message: error.message, line: error.line }] };
  }
}

function readJson(text: string): JsonReading {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    // The engine's message quotes the file, which may contain secrets, and often has no position.
    const bytes = Buffer.from(text);
    const found = scan(bytes, 0, maxDepth);
    const before = bytes.subarray(0, found.ok ? skipSpace(bytes, found.end, bytes.length) : found.offset).toString();
    const line = before.split("\n").length;
    const column = before.length - before.lastIndexOf("\n");
    return { ok: false, fault: { message: describeBadJson(text, before), line, column } };
  }
}

/** What is probably wrong where a JSON text stops being JSON. */
function describeBadJson(text: string, before: string): string {
  const rest = text.slice(before.length).trimStart();
  const last = before.trimEnd().at(-1);
  if (rest === "") return last === undefined ? "is empty" : "the file ends before its last `}` or `]`";
  if (last === undefined && !/^["[{]/u.test(rest))
    return "a JSON file begins with `{`; the name of a YAML file ends in .yaml";
  if (rest.startsWith("'")) return 'JSON has no single quotes; write `"`';
  if (/^[\u2018-\u201F]/u.test(rest)) return 'typographic quotes; write `"`';
  if (last !== undefined && /["\]}\w]/u.test(last) && rest.startsWith('"'))
    return "a comma or a colon is missing before this";
  if (last !== undefined && ":,[{".includes(last) && /^[A-Za-z_$]/u.test(rest))
    return "not a JSON value; keys and text need double quotes";
  return "invalid JSON from here on";
}

function positionOf(
  document: Document,
  lines: LineCounter,
  path: Path,
  key: string | undefined,
): SourcePosition | undefined {
  const { isMap, isScalar, isSeq } = yaml();
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

/** The position of a character in the string at a path; undefined if there is none. */
function positionInScalar(
  text: string,
  document: Document,
  lines: LineCounter,
  path: Path,
  offset: number | undefined,
): SourcePosition | undefined {
  if (offset === undefined) return undefined;
  const { isMap, isScalar, isSeq } = yaml();
  let node: unknown = document.contents;
  for (const step of path) {
    const inner = resolveAlias(node, document);
    node = isMap(inner) || isSeq(inner) ? inner.get(step, true) : undefined;
  }
  const scalar = resolveAlias(node, document);
  return isScalar(scalar) ? positionAt(lines, offsetInSource(text, scalar, offset)) : undefined;
}

function resolveAlias(node: unknown, document: Document): unknown {
  return yaml().isAlias(node) ? node.resolve(document) : node;
}

function nodePosition(node: unknown, lines: LineCounter): SourcePosition | undefined {
  const start = (node as Partial<Node> | null)?.range?.[0];
  return start === undefined ? undefined : positionAt(lines, start);
}

function positionAt(lines: LineCounter, offset: number): SourcePosition {
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}

/**
 * The offset in the file of a character of a scalar's value. In every YAML style the characters of a value appear in the
 * source in order and only white space between them may differ, so the printing ones are counted.
 */
function offsetInSource(source: string, node: Scalar, offset: number): number {
  const [start, end] = node.range ?? [0, 0];
  const value = typeof node.value === "string" ? node.value : "";
  const before = countPrinting(value.slice(0, offset));
  const isAtEnd = value.slice(offset).trim() === "";
  let counted = 0;
  let at = contentStart(source, node.type, start);
  while (at < end) {
    const length = unitLength(source, node.type, at);
    if (/\S/u.test(source.slice(at, at + length))) {
      if (counted === before && !isAtEnd) return at;
      counted++;
      // Something missing at the end is reported right after the last character.
      if (counted === before && isAtEnd) return at + length;
    }
    at += length;
  }
  return start;
}

function countPrinting(text: string): number {
  return text.replaceAll(/\s/gu, "").length;
}

/** Where the value begins: after the opening quote, or on the line after a block header. */
function contentStart(source: string, type: Scalar["type"], start: number): number {
  switch (type) {
    case "QUOTE_DOUBLE":
    case "QUOTE_SINGLE":
      return start + 1;
    case "BLOCK_FOLDED":
    case "BLOCK_LITERAL":
      return source.indexOf("\n", start) + 1;
    default:
      return start;
  }
}

/** How many source characters make one character of the value (YAML 1.2.2, sections 5.7 and 7.3). */
function unitLength(source: string, type: Scalar["type"], at: number): number {
  if (type === "QUOTE_SINGLE") return source.startsWith("''", at) ? 2 : 1;
  if (type !== "QUOTE_DOUBLE" || source[at] !== "\\") return 1;
  const escape = source[at + 1] ?? "";
  return 2 + (({ x: 2, u: 4, U: 8 } as Readonly<Record<string, number>>)[escape] ?? 0);
}
