import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { compactJson, prettyJson } from "../../json-text.ts";
import { Foreign } from "../../parts/foreign.tsx";
import { Problem } from "../../parts/notices.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { post } from "../../state/api.ts";
import { formatSpan } from "../../text.ts";

/** A message that waits for a person. */
export interface Held {
  readonly id: string;
  readonly interceptor: string;
  readonly reason?: string;
  readonly exchange: string;
  readonly route: string;
  readonly principal: string;
  readonly direction: "c2s" | "s2c";
  readonly phase: "request" | "response";
  readonly method?: string;
  readonly target?: string;
  readonly since: number;
  readonly deadline: number;
  readonly onTimeout: "block" | "continue";
  /** Absent for those who may not read messages. */
  readonly text?: string;
}

type Decide = (decision: object) => void;

const answerTemplate = `{
  "result": {
    "content": [{ "type": "text", "text": "" }]
  }
}`;

/** A held message: release it as it is or changed, refuse it, or answer it in place of its receiver. */
export function HeldCard({ held }: { readonly held: Held }) {
  const problem = useSignal<Error | undefined>(undefined);
  const decide: Decide = (decision) => {
    problem.value = undefined;
    post(`holds/${encodeURIComponent(held.id)}`, decision).catch((error: unknown) => {
      problem.value = error instanceof Error ? error : new Error(String(error));
    });
  };
  // A notification has no answer, and an answer is itself one.
  const takesAnswer = held.phase === "request" && held.method?.startsWith("notifications/") !== true;
  return (
    <article class="panel" aria-label={`Held: ${held.target ?? held.method ?? held.phase}`}>
      <header>
        <h2>
          <Foreign text={held.target ?? held.method ?? held.phase} />
        </h2>
        <span class="soft">
          <Foreign text={`${held.method ?? "answer"} by ${held.principal} on ${held.route}`} />
        </span>
        <span class="badge note">{held.phase}</span>
        <span class="spacer" />
        <TimeLeft held={held} />
      </header>
      <div class="body stack">
        {held.reason !== undefined && (
          <p class="soft">
            Held because of <Foreign text={held.reason} />
          </p>
        )}
        <Tabs
          label="What to do with it"
          tabs={[
            { name: "Release", content: () => <Release held={held} decide={decide} /> },
            { name: "Refuse", content: () => <Refuse decide={decide} /> },
            ...(takesAnswer ? [{ name: "Answer", content: () => <AnswerIt decide={decide} /> }] : []),
          ]}
        />
        <Problem error={problem.value} />
      </div>
    </article>
  );
}

/** What happens when, if nobody decides. */
function TimeLeft({ held: { deadline, onTimeout } }: { readonly held: Held }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => (now.value = Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const leftMs = Math.max(0, deadline - now.value);
  return (
    <span class="faint">
      {onTimeout === "block" ? "refused" : "released"} in {formatSpan(leftMs)} if nobody decides
    </span>
  );
}

function Release({ held, decide }: { readonly held: Held; readonly decide: Decide }) {
  const editor = useRef<HTMLTextAreaElement>(null);
  const original = prettyJson(held.text ?? "");
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        const text = editor.current?.value ?? original;
        decide(text === original ? { action: "continue" } : { action: "modify", text: compactJson(text) });
      }}
    >
      {held.text === undefined ? (
        <p class="faint">You may not read messages.</p>
      ) : (
        <textarea
          ref={editor}
          class="field"
          rows={Math.min(24, original.split("\n").length + 1)}
          aria-label={`Message ${held.id}`}
          spellcheck={false}
          defaultValue={original}
        />
      )}
      <div>
        <button type="submit" class="button primary">
          {held.text === undefined ? "Release" : "Release it as shown"}
        </button>
      </div>
    </form>
  );
}

function Refuse({ decide }: { readonly decide: Decide }) {
  const reason = useRef<HTMLInputElement>(null);
  return (
    <form
      class="row-flex"
      onSubmit={(event) => {
        event.preventDefault();
        const text = reason.current?.value.trim() ?? "";
        decide(text === "" ? { action: "block" } : { action: "block", reason: text });
      }}
    >
      <input
        ref={reason}
        class="field"
        style={{ flex: "1 1 240px" }}
        aria-label="Reason"
        placeholder="Message to the agent; optional"
        maxLength={1000}
      />
      <button type="submit" class="button danger">
        Refuse it
      </button>
    </form>
  );
}

function AnswerIt({ decide }: { readonly decide: Decide }) {
  const editor = useRef<HTMLTextAreaElement>(null);
  const problem = useSignal<Error | undefined>(undefined);
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        try {
          const answer: unknown = JSON.parse(editor.current?.value ?? "");
          problem.value = undefined;
          decide({ action: "answer", answer });
        } catch {
          problem.value = new Error("An answer is JSON with `result` or `error`.");
        }
      }}
    >
      <textarea
        ref={editor}
        class="field"
        rows={6}
        aria-label="Answer"
        spellcheck={false}
        defaultValue={answerTemplate}
      />
      <Problem error={problem.value} />
      <div class="row-flex">
        <button type="submit" class="button primary">
          Answer it
        </button>
        <span class="faint">The message is not forwarded; its sender gets this.</span>
      </div>
    </form>
  );
}
