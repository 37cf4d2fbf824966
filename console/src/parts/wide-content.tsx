import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * Content that may be wider than its place. Where a table with labels has no room, each of its rows becomes a few lines;
 * anything else scrolls, and the keyboard can reach it.
 */
export function WideContent({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  // Measured before the browser draws it, whenever it has other content or another width.
  useLayoutEffect(() => fit(box.current));
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    let width = element.clientWidth;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      fit(element);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={label} ref={box}>
      {children}
    </div>
  );
}

function fit(element: HTMLElement | null): void {
  element?.classList.remove("stacked");
  element?.classList.toggle("stacked", element.scrollWidth > element.clientWidth);
}
