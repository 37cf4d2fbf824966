import { Foreign } from "./foreign.tsx";

/** What somebody said, as text. A long one scrolls, so the keyboard can reach it. */
export function Quote({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div class="quote" tabIndex={0} role="group" aria-label={label}>
      <Foreign text={text} />
    </div>
  );
}
