import { useEffect } from "preact/hooks";

import { CopyButton } from "../../parts/copy-button.tsx";
import { back } from "../../state/route.ts";
import { shortened, visibleText } from "../../text.ts";
import { ExchangeDetail } from "./exchange-detail.tsx";

/** An exchange as a page of its own. */
export function ExchangeView({ id }: { readonly id: string }) {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      // What is typed into, such as the command palette, has another use for the key.
      const isTyping = document.activeElement?.matches("input, textarea, select") === true;
      if (event.key === "Escape" && !isTyping) back();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  return (
    <main class="view">
      <div class="head">
        <button type="button" class="button bare" aria-keyshortcuts="Escape" onClick={back}>
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
