import { formatMs } from "../../text.ts";
import type { TimingPart } from "./timing.ts";

/** How long each part of an exchange took. */
export function TimingBar({ parts }: { readonly parts: readonly TimingPart[] }) {
  const total = parts.reduce((sum, { ms }) => sum + ms, 0);
  let x = 0;
  return (
    <section class="timing" aria-label="Where the time went">
      <svg viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ name, kind, ms }) => {
          // A part that took time can be seen, however short it was.
          const width = total === 0 || ms === 0 ? 0 : Math.max(4, (ms / total) * 1000);
          const start = x;
          x += width;
          return <rect key={name} class={`part-${kind}`} x={start} width={Math.max(0, width - 1)} height="14" />;
        })}
      </svg>
      <div class="legend">
        {parts.map(({ name, kind, ms }) => (
          <span key={name}>
            <i class={`swatch part-${kind}`} />
            <span class="soft">{name}</span> {formatMs(ms)}
          </span>
        ))}
      </div>
    </section>
  );
}
