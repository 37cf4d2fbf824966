import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { Foreign } from "../../parts/foreign.tsx";
import { Images } from "../../parts/images.tsx";
import { JsonView } from "../../parts/json-view.tsx";
import { Problem } from "../../parts/notices.tsx";
import { apiUrl, post, remove } from "../../state/api.ts";
import { href } from "../../state/route.ts";
import { textOf } from "../sessions/sentences.ts";
import { SchemaForm } from "./form.tsx";
import type { Choice } from "./playground-view.tsx";

interface Question {
  readonly question: string;
  readonly params: { readonly message?: string; readonly requestedSchema?: unknown };
}

interface Outcome {
  readonly result?: unknown;
  readonly message?: string;
  readonly code?: number;
}

/** What a run is given. */
export interface RunProps {
  readonly choice: Choice;
  readonly target: { readonly route: string; readonly token?: string };
}

/** One tool, resource or prompt: its form, and what happens when it is used. */
export function Run({ choice: { kind, offer }, target }: RunProps) {
  const call = useSignal<string | undefined>(undefined);
  const progress = useSignal<string | undefined>(undefined);
  const question = useSignal<Question | undefined>(undefined);
  const outcome = useSignal<Outcome | undefined>(undefined);
  const problem = useSignal<Error | undefined>(undefined);
  const stream = useRef<EventSource>(undefined);
  useEffect(() => () => stream.current?.close(), []);

  async function start(values: Readonly<Record<string, unknown>>): Promise<void> {
    problem.value = outcome.value = progress.value = question.value = undefined;
    const [method, params] = requestOf({ kind, offer }, values);
    try {
      const { call: id } = await post<{ readonly call: string }>("playground/calls", { ...target, method, params });
      call.value = id;
      follow(id);
    } catch (error) {
      problem.value = error instanceof Error ? error : new Error(String(error));
    }
  }

  function follow(id: string): void {
    const events = new EventSource(apiUrl(`playground/calls/${id}`));
    stream.current = events;
    const over = (data: string): void => {
      outcome.value = JSON.parse(data) as Outcome;
      question.value = call.value = undefined;
      events.close();
    };
    const on = (name: string, listener: (data: string) => void): void =>
      events.addEventListener(name, ({ data }: MessageEvent<string>) => listener(data));
    on("progress", (data) => {
      const {
        progress: done,
        total,
        message,
      } = JSON.parse(data) as { progress: number; total?: number; message?: string };
      progress.value = [total === undefined ? String(done) : `${done} of ${total}`, message ?? ""].join(" ");
    });
    on("question", (data) => (question.value = JSON.parse(data) as Question));
    on("done", over);
    on("failed", over);
  }

  async function answer(action: string, content?: Readonly<Record<string, unknown>>): Promise<void> {
    const { question: number = "" } = question.value ?? {};
    question.value = undefined;
    const body = { question: number, action, ...(content === undefined ? {} : { content }) };
    await post(`playground/calls/${call.value ?? ""}/answers`, body).catch((error: unknown) => {
      problem.value = error instanceof Error ? error : new Error(String(error));
    });
  }

  const isRunning = call.value !== undefined;
  return (
    <div class="stack">
      <div>
        <h2>
          <Foreign text={offer.name ?? offer.uri ?? ""} />
        </h2>
        <p class="soft">
          <Foreign text={offer.description ?? ""} />
        </p>
      </div>
      <SchemaForm
        schema={kind === "prompts" ? promptSchema(offer.arguments) : kind === "tools" ? offer.inputSchema : {}}
        submit={isRunning ? "Running…" : kind === "tools" ? "Call" : kind === "resources" ? "Read" : "Get"}
        isBusy={isRunning}
        onSubmit={(values) => void start(values)}
      />
      {isRunning && (
        <div class="row-flex" role="status">
          <span class="spinner" />
          <span class="soft">
            <Foreign text={progress.value ?? "waiting for the server"} />
          </span>
          <button type="button" class="button" onClick={() => void remove(`playground/calls/${call.value ?? ""}`)}>
            Cancel
          </button>
        </div>
      )}
      {question.value !== undefined && (
        <Asked question={question.value} onAnswer={(...given) => void answer(...given)} />
      )}
      <Problem error={problem.value} />
      {outcome.value !== undefined && <Shown outcome={outcome.value} />}
    </div>
  );
}

function requestOf(
  { kind, offer }: Choice,
  values: Readonly<Record<string, unknown>>,
): readonly [method: string, params: object] {
  if (kind === "resources") return ["resources/read", { uri: offer.uri }];
  return [kind === "tools" ? "tools/call" : "prompts/get", { name: offer.name, arguments: values }];
}

interface AskedProps {
  readonly question: Question;
  readonly onAnswer: (action: string, content?: Readonly<Record<string, unknown>>) => void;
}

function Asked({ question: { params }, onAnswer }: AskedProps) {
  return (
    <section class="panel" role="alertdialog" aria-label="The server asks">
      <header>
        <h2>The server asks</h2>
      </header>
      <div class="body stack">
        <p>
          <Foreign text={params.message ?? ""} />
        </p>
        <SchemaForm
          schema={params.requestedSchema}
          submit="Answer"
          isBusy={false}
          onSubmit={(content) => onAnswer("accept", content)}
        />
        <div class="row-flex">
          <button type="button" class="button" onClick={() => onAnswer("decline")}>
            Decline
          </button>
          <button type="button" class="button bare" onClick={() => onAnswer("cancel")}>
            Cancel
          </button>
        </div>
      </div>
    </section>
  );
}

function Shown({ outcome: { result, message, code } }: { readonly outcome: Outcome }) {
  const text = textOf({ state: "ok" }, { result });
  return (
    <section class="stack" aria-live="polite">
      {message !== undefined && <Problem error={new Error(code === undefined ? message : `${message} (${code})`)} />}
      {text !== "" && (
        <div class="quote">
          <Foreign text={text} />
        </div>
      )}
      <Images of={result} />
      {result !== undefined && (
        <div class="panel">
          <header>
            <h2>Result</h2>
            <span class="spacer" />
            <a class="soft" href={href("live")}>
              <u>see it in the traffic</u>
            </a>
          </header>
          <JsonView text={JSON.stringify(result)} label="Result" />
        </div>
      )}
    </section>
  );
}

function promptSchema(given: Choice["offer"]["arguments"] = []): unknown {
  return {
    properties: Object.fromEntries(given.map(({ name, description }) => [name, { type: "string", description }])),
    required: given.filter(({ required }) => required === true).map(({ name }) => name),
  };
}
