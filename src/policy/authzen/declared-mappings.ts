import type { ListEntry } from "../provider.ts";
import { compileMapping, type Mapping } from "./mapping.ts";

/** What is known of how calls of a tool are to be decided. */
export type MappingDeclaration =
  /** Nobody has listed the tool yet. */
  | { readonly type: "unseen" }
  /** It declares nothing: the default holds. */
  | { readonly type: "none" }
  | { readonly type: "mapping"; readonly mapping: Mapping }
  /** What it declares cannot be understood. */
  | { readonly type: "broken"; readonly problem: string };

/** Mappings that servers declare for their tools, learned from the lists that pass by. */
export interface DeclaredMappings {
  /** Learns from a page of tools. */
  learn(entries: readonly ListEntry[]): void;
  find(tool: string): MappingDeclaration;
}

/** Tools that are kept; the one that was listed longest ago goes first. */
const maxTools = 10_000;

const unseenDeclaration: MappingDeclaration = { type: "unseen" };
const noDeclaration: MappingDeclaration = { type: "none" };

interface Seen {
  /** The declaration as it was written. */
  readonly text: string | undefined;
  /** Compiled when the tool is first called: most of them never are. */
  compiled: MappingDeclaration | undefined;
}

/** Makes an empty memory (COAZ-MCP binding, "Declaring a Mapping"). */
export function createDeclaredMappings(): DeclaredMappings {
  const tools = new Map<string, Seen>();
  return {
    learn: (entries) => {
      for (const { name, value } of entries) {
        const text = declarationIn(value);
        const before = tools.get(name);
        tools.delete(name);
        tools.set(
          name,
          before?.text === text && before !== undefined ? before : { text, compiled: undefined },
        );
        const [oldest] = tools.keys();
        if (tools.size > maxTools && oldest !== undefined) tools.delete(oldest);
      }
    },
    find: (tool) => {
      const seen = tools.get(tool);
      return seen === undefined ? unseenDeclaration : (seen.compiled ??= compileDeclaration(seen.text));
    },
  };
}

function declarationIn({ inputSchema }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof inputSchema !== "object" || inputSchema === null) return undefined;
  if (!Object.hasOwn(inputSchema, "x-authzen-mapping")) return undefined;
  return JSON.stringify(Reflect.get(inputSchema, "x-authzen-mapping"));
}

function compileDeclaration(text: string | undefined): MappingDeclaration {
  if (text === undefined) return noDeclaration;
  const problems: string[] = [];
  const mapping = compileMapping(JSON.parse(text), ({ path, message }) => {
    problems.push(`${path.join(".")} ${message}`.trim());
  });
  return problems.length === 0
    ? { type: "mapping", mapping }
    : { type: "broken", problem: problems.join("; ") };
}
