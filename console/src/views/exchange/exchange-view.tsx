import { CopyButton } from "../../parts/copy-button.tsx";
import { back } from "../../state/route.ts";
import { shortened, visibleText } from "../../text.ts";
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
        <CopyButton label={shortened(visibleText(id), 40)} title="Copy the id" isBare text={() => id} />
      </div>
      <div class="scroll" style={{ padding: 0 }}>
        <ExchangeDetail id={id} />
      </div>
    </main>
  );
}
