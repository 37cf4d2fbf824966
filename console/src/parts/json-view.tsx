import { useState } from "preact/hooks";

import { prettyJson } from "../json-text.ts";
import { Foreign } from "./foreign.tsx";

/** Longer texts are shown on demand: a page must not freeze over one message. */
const maxShown = 20_000;

const token = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/gu;

/** A JSON text, laid out and colored. */
export function JsonView({ text, label }: { readonly text: string; readonly label: string }) {
  const [isWhole, setWhole] = useState(false);
  const pretty = prettyJson(text);
  const shown = isWhole || pretty.length <= maxShown ? pretty : pretty.slice(0, maxShown);
  return (
    <>
      {/* Scrolls, so the keyboard must be able to reach it. */}
      <pre class="json" tabIndex={0} role="region" aria-label={label}>
        {colored(shown)}
      </pre>
      {shown.length < pretty.length && (
        <button type="button" class="button bare" onClick={() => setWhole(true)}>
          Show {(pretty.length - shown.length).toLocaleString("en-US")} more characters
        </button>
      )}
    </>
  );
}

function colored(text: string) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(token)) {
    const [all, string, colon, number] = match;
    const kind =
      string === undefined ? (number === undefined ? "word" : "number") : colon === undefined ? "string" : "key";
    const shown = string ?? all;
    parts.push(text.slice(last, match.index));
    parts.push(
      <span key={match.index} class={kind}>
        <Foreign text={shown} />
      </span>,
    );
    last = match.index + shown.length;
  }
  parts.push(<Foreign key="rest" text={text.slice(last)} />);
  return parts;
}
