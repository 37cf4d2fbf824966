import { Icon } from "../../parts/icon.tsx";
import { ExchangeDetail } from "./exchange-detail.tsx";

/** An exchange as a page of its own. */
export function ExchangeView({ id }: { readonly id: string }) {
  return (
    <main class="view">
      <div class="head">
        <button type="button" class="button bare" onClick={() => history.back()}>
          ← Back
        </button>
        <span class="spacer" />
        <span class="faint mono cut">
          <Icon name="live" size={12} /> {id}
        </span>
      </div>
      <div class="scroll" style={{ padding: 0 }}>
        <ExchangeDetail id={id} />
      </div>
    </main>
  );
}
