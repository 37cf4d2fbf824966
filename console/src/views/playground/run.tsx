import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import type { Frame } from "../../../../src/recorder/contract.ts";
import { Foreign } from "../../parts/foreign.tsx";
import { Images } from "../../parts/images.tsx";
import { JsonView } from "../../parts/json-view.tsx";
import { Problem } from "../../parts/notices.tsx";
import { Quote } from "../../parts/quote.tsx";
import { get, post, remove } from "../../state/api.ts";
import { followEvents } from "../../state/events.ts";
import { useLoaded } from "../../state/load.ts";
import { href } from "../../state/route.ts";
import { SchemaForm } from "./form.tsx";
import type { Choice } from "./playground-view.tsx";

interface Question {
  readonly question: string;
  readonly params: { readonly message?: string; readonly requestedSchema?: unknown };
}

interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

function progressText({ progress, total, message = "" }: Progress): string {
  return `${total === undefined ? String(progress) : `${progress} of ${total}`} ${message}`;
}

interface Outcome {
  readonly result?: unknown;
  /** What the result says. */
  readonly text?: string;
  readonly message?: string;
  readonly code?: number;
}

/** What a run is given. */
export interface RunProps {
  readonly choice: Choice;
  readonly target: { readonly route: string; readonly token?: string };
  /** A recorded exchange whose arguments are filled in. */
  readonly from: string | undefined;
}

interface Recorded {
  readonly frames: Readonly<Record<string, readonly Frame[]>>;
}

/** The arguments of a recorded request; undefined if it was not recorded whole. */
async function argumentsIn(
  exchange: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { frames } = await get<Recorded>(`exchanges/${encodeURIComponent(exchange)}`, {}, signal);
  const { params } = JSON.parse(frames[exchange]?.[0]?.body ?? "{}") as {
    readonly params?: { readonly arguments?: Readonly<Record<string, unknown>> };
  };
  return params?.arguments;
}

/** One tool, resource or prompt: its form, and what happens when it is used. */
export function Run({ choice: { kind, offer }, target, from }: RunProps) {
  const recorded = useLoaded(from ?? "", async (signal) =>
    from === undefined ? undefined : argumentsIn(from, signal),
  );
  const call = useSignal<string | undefined>(undefined);
  const trace = useSignal("");
  const progress = useSignal<string | undefined>(undefined);
  const question = useSignal<Question | undefined>(undefined);
  const outcome = useSignal<Outcome | undefined>(undefined);
  const problem = useSignal<Error | undefined>(undefined);
  const stop = useRef<() => void>(undefined);
  useEffect(() => () => stop.current?.(), []);

  async function start(values: Readonly<Record<string, unknown>>): Promise<void> {
    problem.value = outcome.value = progress.value = question.value = undefined;
    const [method, params] = requestOf({ kind, offer }, values);
    try {
      const body = { ...target, method, params };
      const { call: id, trace: found } = await post<{ readonly call: string; readonly trace: string }>(
        "playground/calls",
        body,
      );
      call.value = id;
      trace.value = found;
      follow(id);
    } catch (error) {
      problem.value = error instanceof Error ? error : new Error(String(error));
    }
  }

  function follow(id: string): void {
    const end = (): void => {
      question.value = call.value = undefined;
      stop.current?.();
    };
    const over = (data: string): void => {
      outcome.value = JSON.parse(data) as Outcome;
      end();
    };
    stop.current = followEvents(
      `playground/calls/${id}`,
      {},
      {
        on: {
          progress: (data) => (progress.value = progressText(JSON.parse(data) as Progress)),
          question: (data) => (question.value = JSON.parse(data) as Question),
          done: over,
          failed: over,
        },
        onLost: () => (progress.value = "connection lost, trying again"),
        onProblem: () => {
          problem.value = new Error("The gateway was restarted and no longer knows this call. The call may have run.");
          end();
        },
      },
    );
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
      <Problem error={recorded.value.error} />
      <SchemaForm
        key={from !== undefined && recorded.value.isLoading ? "loading" : "loaded"}
        initial={recorded.value.value}
        schema={kind === "prompts" ? promptSchema(offer.arguments) : kind === "tools" ? offer.inputSchema : {}}
        submit={isRunning ? "Running…" : kind === "tools" ? "Call" : kind === "resources" ? "Read" : "Get"}
        isBusy={isRunning}
        takesJson={kind === "tools"}
        onSubmit={(values) => void start(values)}
      />
      {isRunning && (
        <div class="row-flex" role="status">
          <span class="spinner" />
          <span class="soft">
            {question.value === undefined ? (
              <Foreign text={progress.value ?? "waiting for the server"} />
            ) : (
              "the server waits for your answer"
            )}
          </span>
          <button type="button" class="button" onClick={() => void remove(`playground/calls/${call.value ?? ""}`)}>
            Cancel the call
          </button>
        </div>
      )}
      {question.value !== undefined && (
        <Asked key={question.value.question} question={question.value} onAnswer={(...given) => void answer(...given)} />
      )}
      <Problem error={problem.value} />
      {outcome.value !== undefined && (
        <p>
          <a href={href("live", undefined, { filter: `trace:${trace.value}` })}>
            <u>Why it was allowed or refused, and how long each step took</u>
          </a>
        </p>
      )}
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
  const element = useRef<HTMLElement>(null);
  // It may be below what is in sight, and the call waits for it.
  useEffect(() => element.current?.focus(), []);
  return (
    <section class="panel" role="alertdialog" aria-label="The server asks" ref={element} tabIndex={-1}>
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
        >
          <button type="button" class="button" onClick={() => onAnswer("decline")}>
            Decline
          </button>
          <button type="button" class="button bare" onClick={() => onAnswer("cancel")}>
            Dismiss
          </button>
        </SchemaForm>
      </div>
    </section>
  );
}

function Shown({ outcome: { result, text = "", message, code } }: { readonly outcome: Outcome }) {
  return (
    <section class="stack" aria-live="polite">
      {message !== undefined && <Problem error={new Error(code === undefined ? message : `${message} (${code})`)} />}
      {text !== "" && <Quote label="What the result says" text={text} />}
      <Images of={result} />
      {result !== undefined && (
        <div class="panel">
          <header>
            <h2>Result</h2>
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
