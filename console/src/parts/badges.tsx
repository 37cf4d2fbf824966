import type { ExchangeRecord, ExchangeStatus } from "../../../src/recorder/contract.ts";
import { aboutRoute } from "../state/session.ts";
import { visibleText } from "../text.ts";
import { Foreign } from "./foreign.tsx";

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
  input_required: "asks back",
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

/** What policy said, and by which rule; a rule alone has allowed it. */
export function DecisionBadge({ exchange: { decision, rule, route } }: { readonly exchange: ExchangeRecord }) {
  if (decision === undefined)
    return <span class="faint">{aboutRoute(route)?.policy === "none" ? "no policy" : "–"}</span>;
  return (
    <span title={rule === undefined ? decision : `${decision} by ${visibleText(rule)}`}>
      {(decision !== "allow" || rule === undefined) && <span class={`badge ${effects[decision]}`}>{decision}</span>}
      {rule !== undefined && (
        <span class="soft">
          {" "}
          <Foreign text={rule} />
        </span>
      )}
    </span>
  );
}
