import type { Exchange } from "../../core/exchange.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import type { ListFacts } from "./list-facts.ts";

/** A part of what a federation offers, as configured. */
export interface ViewOptions {
  readonly tools: readonly string[];
  readonly prompts: readonly string[];
  readonly resources: readonly string[];
  /** How clients find its tools. */
  readonly discovery: "list" | "search";
  /** Whether a URI has only this spelling; a reference may be a URI template. */
  readonly isCanonical: (uri: string, isReference: boolean) => boolean;
  /** Whether the caller of an exchange gets this view; undefined where it is only reachable by its path. */
  readonly when?: ((exchange: Exchange) => boolean) | undefined;
}

/** Whether a view shows a name. */
type NameTest = (name: string) => boolean;

/** A part of what a federation offers. What it does not show does not exist in it. */
export interface View {
  readonly shows: Readonly<Record<"tool" | "prompt" | "resource", NameTest>>;
  readonly discovery: ViewOptions["discovery"];
  readonly isCanonical: ViewOptions["isCanonical"];
  readonly when: ViewOptions["when"];
}

export function createView({ tools, prompts, resources, discovery, isCanonical, when }: ViewOptions): View {
  return {
    shows: {
      tool: createGlobTest(tools),
      prompt: createGlobTest(prompts),
      resource: createGlobTest(resources),
    },
    discovery,
    isCanonical,
    when,
  };
}

/** Whether a view shows the entry of a list; tasks belong to the calls that started them. */
export function showsEntry({ shows }: View, { named, key }: ListFacts, name: string): boolean {
  if (key === "taskId") return true;
  return shows[named ?? "resource"](name);
}
