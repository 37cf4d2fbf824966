import type { ListPage, ShadowDecision } from "../provider.ts";
import { decide, type RuleSetResult } from "./decide.ts";
import { Bindings } from "./facts.ts";
import type { RuleSet } from "./rules.ts";

/** Which entries of a list may be seen, and what is to be told of how that came about. */
export interface ListFilterResult {
  readonly visible: readonly boolean[];
  /** The ruling on the list as a whole: no rule of its own, and what rules in shadow mode would have hidden. */
  readonly result: RuleSetResult | undefined;
}

/** Most entries that are named in notes; a list of thousands would make a log line of thousands. */
const mostNotes = 5;

/** Decides about the entries of a page. An entry about which a rule fails is hidden. */
export function filterEntries(
  set: RuleSet | undefined,
  isNamed: ((name: string) => boolean) | undefined,
  { subject, kind, entries }: ListPage,
): ListFilterResult {
  if (set === undefined) {
    return { visible: entries.map((entry) => isNamed?.(entry.name) ?? true), result: undefined };
  }
  const bindings = new Bindings(subject, set.needs);
  const visible: boolean[] = [];
  let shadow: ShadowDecision[] | undefined;
  let notes: string[] | undefined;
  for (const entry of entries) {
    if (isNamed?.(entry.name) === false) {
      visible.push(false);
      continue;
    }
    bindings.setEntry(kind, entry);
    const ruling = decide(set.ordered, set.ordered.length, bindings, set.fallback);
    visible.push(ruling.refusal === undefined);
    for (const verdict of ruling.shadow ?? []) {
      if (verdict.effect === "deny" && (shadow?.length ?? 0) < mostNotes) {
        (shadow ??= []).push({ ...verdict, reason: `would hide ${entry.name}` });
      }
    }
    if (ruling.notes !== undefined && (notes?.length ?? 0) < mostNotes) {
      (notes ??= []).push(`${entry.name}: ${ruling.rule?.id ?? ""} ${ruling.notes.join(", ")}`);
    }
  }
  const whole = {
    refusal: undefined,
    rule: undefined,
    reached: set.ordered.length,
    effects: [],
    shadow,
    notes,
  };
  return { visible, result: whole };
}
