import { createHash } from "node:crypto";

import { BoundedMap } from "../lib/bounded-map.ts";
import { isObject } from "../lib/is-object.ts";

/** A tool of a list. */
export type ListedTool = Readonly<Record<string, unknown>> & { readonly name: string };

/** Finds tools by words. */
export interface ToolIndex {
  /** The tools that fit best, the best first. */
  search(query: string, limit: number): readonly ListedTool[];
}

// The usual constants of Okapi BM25: saturation of repeated words, and normalization of long texts.
const saturation = 1.2;
const lengthWeight = 0.75;
/** The name says more about a tool than its description. */
const nameWeight = 3;
const maxIndexes = 64;
/** The maximum number of query words: each is looked for in every tool, and callers choose how many they send. */
const maxWords = 32;
const maxQuery = 1000;

/** Creates the function that indexes lists; equal lists share an index among all callers. */
export function createToolIndexes(): (tools: readonly ListedTool[]) => ToolIndex {
  const indexes = new BoundedMap<string, ToolIndex>(maxIndexes);
  return (tools) => {
    const key = createHash("sha256").update(JSON.stringify(tools)).digest("base64url");
    const known = indexes.touch(key);
    if (known !== undefined) return known;
    const index = createToolIndex(tools);
    indexes.set(key, index);
    return index;
  };
}

/** Indexes the names, titles, descriptions and arguments of tools. */
export function createToolIndex(tools: readonly ListedTool[]): ToolIndex {
  const documents = tools.map((tool) => ({ tool, counts: countsOf(tool) }));
  const lengths = documents.map(({ counts }) => [...counts.values()].reduce((sum, count) => sum + count, 0));
  const average = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length);
  const containing = (word: string): number => documents.filter(({ counts }) => counts.has(word)).length;
  return {
    search: (query, limit) => {
      const words = [...new Set(wordsOf(query.slice(0, maxQuery)))].slice(0, maxWords).map((word) => {
        const found = containing(word);
        return { word, rarity: Math.log(1 + (documents.length - found + 0.5) / (found + 0.5)) };
      });
      return documents
        .map(({ tool, counts }, index) => {
          const norm = saturation * (1 - lengthWeight + (lengthWeight * (lengths[index] ?? 0)) / Math.max(1, average));
          const score = words.reduce((sum, { word, rarity }) => {
            const count = counts.get(word) ?? 0;
            return sum + (rarity * count * (saturation + 1)) / (count + norm);
          }, 0);
          return { tool, score };
        })
        .filter(({ score }) => score > 0)
        .toSorted((a, b) => b.score - a.score)
        .slice(0, limit)
        .map(({ tool }) => tool);
    },
  };
}

function countsOf({ name, title, description, inputSchema }: ListedTool): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const add = (text: unknown, weight: number): void => {
    if (typeof text !== "string") return;
    for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + weight);
  };
  add(name, nameWeight);
  add(title, nameWeight);
  add(description, 1);
  const properties: unknown = isObject(inputSchema) ? inputSchema["properties"] : undefined;
  for (const [argument, schema] of Object.entries(isObject(properties) ? properties : {})) {
    add(argument, 1);
    add(isObject(schema) ? schema["description"] : undefined, 1);
  }
  return counts;
}

/** Words in lower case, with parts of names as words of their own and without the plural's `s`. */
function wordsOf(text: string): readonly string[] {
  const parts = text.replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2").toLowerCase();
  return (parts.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => (word.length > 3 ? word.replace(/s$/u, "") : word));
}
