import type { FrameContext } from "./contract.ts";

/** Reads the contexts of packs. Most packs of a client have the same one, so parsed contexts are cached. */
export type ContextReader = (text: string) => FrameContext;

const maxCachedContexts = 1000;

/** The members of a context by their places in its JSON array, which is shorter than an object. */
const contextFields = [
  "route",
  "principal",
  "session",
  "revision",
  "transport",
  "parent",
  "traceId",
  "http",
  "client",
] as const satisfies readonly (keyof FrameContext)[];

/** Writes a context as a JSON array; -1 stands for a member that is left out. */
export function formatContext(context: FrameContext): string {
  return JSON.stringify(contextFields.map((field) => context[field] ?? -1));
}

function parseContext(text: string): FrameContext {
  const values = JSON.parse(text) as readonly unknown[];
  const members = contextFields.flatMap((field, index) => {
    const value = values[index];
    return value === -1 || value === undefined ? [] : [[field, value] as const];
  });
  // Written by `formatContext` from a context.
  return Object.fromEntries(members) as unknown as FrameContext;
}

/** Makes a reader of contexts. */
export function createContextReader(): ContextReader {
  const cache = new Map<string, FrameContext>();
  return (text) => {
    let context = cache.get(text);
    if (context === undefined) {
      context = parseContext(text);
      if (cache.size >= maxCachedContexts) cache.clear();
      cache.set(text, context);
    }
    return context;
  };
}
