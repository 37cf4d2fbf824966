import { useState } from "preact/hooks";

import { Icon } from "./icon.tsx";

/** Copies a text. */
export function CopyButton({
  text,
  label,
  title,
  isBare = false,
}: {
  readonly text: () => string;
  readonly label: string;
  /** What the button does, where its label does not say so. */
  readonly title?: string;
  readonly isBare?: boolean;
}) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setState("copied");
    } catch {
      setState("failed");
    }
    setTimeout(() => setState("ready"), 1500);
  };
  const said = state === "copied" ? "Copied" : state === "failed" ? "Could not copy" : label;
  return (
    <button
      type="button"
      class={`button${isBare ? " bare" : ""}`}
      onClick={() => void copy()}
      title={title}
      aria-live="polite"
    >
      <Icon name={state === "copied" ? "check" : "copy"} size={14} />
      <span class="cut">{said}</span>
    </button>
  );
}
