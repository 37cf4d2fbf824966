import { CopyButton } from "../../parts/copy-button.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { back } from "../../state/route.ts";
import { ExchangeDetail } from "./exchange-detail.tsx";

/** An exchange as a page of its own. */
export function ExchangeView({ id }: { readonly id: string }) {
  return (
    <main class="view">
      <div class="head">
        <button type="button" class="button bare" onClick={back}>
          ← Back
        </button>
        <span class="spacer" />
        <span class="faint mono cut">
          <Foreign text={id} />
        </span>
        <CopyButton label="Copy the id" isBare text={() => id} />
      </div>
      <div class="scroll" style={{ padding: 0 }}>
        <ExchangeDetail id={id} />
      </div>
    </main>
  );
}
