import type { FrameContext } from "./contract.ts";

/** Writes what is known of an exchange as JSON. */
export type ContextWriter = (context: FrameContext) => string;

/** Reads the contexts of packs; most of them say the same, so what was read is remembered for a while. */
export type ContextReader = (text: string) => FrameContext;

const maxCachedContexts = 1000;

/** Members by their places, since their names would be longer than most of them; -1 where one is left out. */
const contextFields = [
  "route",
  "principal",
  "session",
  "revision",
  "transport",
  "parent",
  "traceId",
  "http",
] as const satisfies readonly (keyof FrameContext)[];

/** Writes a context as JSON. */
export function formatContext(context: FrameContext): string {
  return JSON.stringify(contextFields.map((member) => context[member] ?? -1));
}

function parseContext(text: string): FrameContext {
  const values = JSON.parse(text) as readonly unknown[];
  const members = contextFields.flatMap((member, place) => {
    const value = values[place];
    return value === -1 || value === undefined ? [] : [[member, value] as const];
  });
  // Written by `formatContext` from a context.
  return Object.fromEntries(members) as unknown as FrameContext;
}

/** Makes a writer of contexts that remembers what it wrote, for those who have the same objects again and again. */
export function createContextWriter(): ContextWriter {
  const known = new Map<FrameContext, string>();
  return (context) => {
    let text = known.get(context);
    if (text === undefined) {
      text = formatContext(context);
      if (known.size >= maxCachedContexts) known.clear();
      known.set(context, text);
    }
    return text;
  };
}

/** Makes a reader of contexts. */
export function createContextReader(): ContextReader {
  const known = new Map<string, FrameContext>();
  return (text) => {
    let context = known.get(text);
    if (context === undefined) {
      context = parseContext(text);
      if (known.size >= maxCachedContexts) known.clear();
      known.set(text, context);
    }
    return context;
  };
}
