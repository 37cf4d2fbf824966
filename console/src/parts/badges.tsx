import type { ExchangeRecord, ExchangeStatus } from "../../../src/recorder/contract.ts";

const tones: Readonly<Record<ExchangeStatus, "good" | "warn" | "bad" | "note" | "">> = {
  open: "note",
  ok: "good",
  tool_error: "bad",
  input_required: "note",
  error: "bad",
  refused: "warn",
  failed: "bad",
  accepted: "",
  cancelled: "",
  abandoned: "bad",
  orphan: "bad",
  invalid: "bad",
};

/** The status of an exchange in words. */
export const statusNames: Readonly<Record<ExchangeStatus, string>> = {
  open: "running",
  ok: "ok",
  tool_error: "tool error",
  input_required: "asks for input",
  error: "error",
  refused: "refused",
  failed: "failed",
  accepted: "sent",
  cancelled: "cancelled",
  abandoned: "abandoned",
  orphan: "orphan",
  invalid: "invalid",
};

/** How an exchange ended. */
export function StatusBadge({ state }: { readonly state: ExchangeStatus }) {
  return <span class={`badge ${tones[state]}`}>{statusNames[state]}</span>;
}

const effects = { allow: "", change: "note", filter: "note", deny: "bad" } as const;

/** What policy said, and by which rule. */
export function DecisionBadge({ exchange: { decision, rule } }: { readonly exchange: ExchangeRecord }) {
  if (decision === undefined) return null;
  return (
    <span class="cut" title={rule}>
      <span class={`badge ${effects[decision]}`}>{decision}</span>
      {rule === undefined ? null : <span class="soft"> {rule}</span>}
    </span>
  );
}
