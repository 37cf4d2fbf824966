import type { Frame } from "../../../../src/recorder/contract.ts";
import { diffLines } from "../../diff.ts";
import { Foreign } from "../../parts/foreign.tsx";
import { Images } from "../../parts/images.tsx";
import { JsonView } from "../../parts/json-view.tsx";
import { may } from "../../state/session.ts";
import { prettyJson } from "../../json-text.ts";
import { formatBytes, formatMs } from "../../text.ts";

/** Both legs side by side: what the client and what the server saw. */
export function Legs({ frames }: { readonly frames: readonly Frame[] }) {
  const start = frames[0]?.mono ?? 0;
  return (
    <div class="legs">
      <Leg title="Client" frames={frames.filter(({ leg }) => leg === "client")} start={start} />
      <Leg title="Server" frames={frames.filter(({ leg }) => leg === "upstream")} start={start} />
    </div>
  );
}

function Leg({
  title,
  frames,
  start,
}: {
  readonly title: string;
  readonly frames: readonly Frame[];
  readonly start: number;
}) {
  const messages = frames.filter(({ kind }) => kind !== "decision" && kind !== "diagnostic");
  return (
    <section class="leg" aria-label={`${title} side`}>
      <h3>{title} side</h3>
      {messages.length === 0 && <p class="faint">Nothing was forwarded here: the gateway answered itself.</p>}
      {messages.map((frame) => (
        <FrameView key={frame.seq} frame={frame} start={start} />
      ))}
    </section>
  );
}

function FrameView({ frame, start }: { readonly frame: Frame; readonly start: number }) {
  const way = frame.passing === "received" ? "→ gateway" : "gateway →";
  const label = `${frame.kind} ${way}`;
  return (
    <article class="panel frame">
      <header>
        <b>{frame.kind}</b>
        <span class="soft">{way}</span>
        {frame.same !== undefined && <span class="badge">unchanged</span>}
        {(frame.redacted ?? 0) > 0 && <span class="badge note">{frame.redacted} redacted</span>}
        <span class="spacer" />
        <span class="faint">
          +{formatMs(frame.mono - start)} · {formatBytes(frame.bytes)}
        </span>
      </header>
      {frame.body === undefined ? (
        <p class="body faint">{whyNoBody(frame)}</p>
      ) : (
        <JsonView text={frame.body} label={label} />
      )}
      {frame.kind === "result" && frame.same === undefined && <Images of={parsed(frame.body)} />}
    </article>
  );
}

function parsed(body: string | undefined): unknown {
  try {
    return body === undefined ? undefined : JSON.parse(body);
  } catch {
    return undefined;
  }
}

function whyNoBody({ omitted, same }: Frame): string {
  if (!may("bodies")) return "You may not read messages.";
  if (omitted === "size") return "Larger than what is recorded.";
  if (omitted === "queue") return "Omitted because the recording queue was nearly full.";
  return same === undefined ? "No body was recorded." : "The same as before.";
}

/** What the gateway changed: each message as it came against as it went on. */
export function Changes({ frames }: { readonly frames: readonly Frame[] }) {
  const pairs = (["request", "answer"] as const).flatMap((part) => {
    const isPart = ({ kind }: Frame): boolean =>
      part === "request" ? kind === "request" || kind === "notification" : kind === "result" || kind === "error";
    const came = frames.find((frame) => isPart(frame) && frame.passing === "received");
    const went = frames.findLast((frame) => isPart(frame) && frame.passing === "sent");
    if (came?.body === undefined || went?.body === undefined || came.body === went.body) return [];
    return [{ part, before: prettyJson(came.body), after: prettyJson(went.body) }];
  });
  if (pairs.length === 0) return <p class="soft">Nothing: every message was forwarded unchanged.</p>;
  return (
    <div class="stack">
      {pairs.map(({ part, before, after }) => (
        <section key={part}>
          <h3>{part === "request" ? "The request" : "The answer"}</h3>
          <pre class="json diff panel" tabIndex={0} role="region" aria-label={`Changes of the ${part}`}>
            {diffLines(before, after).map(({ type, text }, index) =>
              type === "same" ? (
                <Foreign key={index} text={text} />
              ) : (
                <span key={index} class={type}>
                  <span class="visually-hidden">{type}: </span>
                  <Foreign text={text} />
                </span>
              ),
            )}
          </pre>
        </section>
      ))}
    </div>
  );
}

/** The recorded texts as they are. */
export function Raw({ frames }: { readonly frames: readonly Frame[] }) {
  return (
    <pre class="json panel" tabIndex={0} role="region" aria-label="Raw messages">
      <Foreign
        text={frames
          .filter(({ body, same }) => body !== undefined && same === undefined)
          .map(({ leg, passing, kind, body }) => `# ${kind}, ${passing}, ${leg} side\n${body ?? ""}\n`)
          .join("\n")}
      />
    </pre>
  );
}
