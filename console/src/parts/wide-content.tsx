import type { ComponentChildren } from "preact";

/** Content that may be wider than the page: it scrolls, and the keyboard can reach it. */
export function WideContent({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={label}>
      {children}
    </div>
  );
}
