import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

import { Foreign } from "../../parts/foreign.tsx";
import { Problem } from "../../parts/notices.tsx";
import { visibleText } from "../../text.ts";
import { argumentsOf, fieldsOf, type FormChoice, type FormField, takesMore, valueOf } from "./schema-form.ts";

/** What a form is given. */
export interface SchemaFormProps {
  readonly schema: unknown;
  /** Arguments to begin with, instead of the defaults of the schema. */
  readonly initial?: Readonly<Record<string, unknown>> | undefined;
  readonly submit: string;
  readonly isBusy: boolean;
  /** Whether the arguments can also be written as JSON, such as to try what the schema does not allow. */
  readonly takesJson?: boolean;
  readonly onSubmit: (values: Readonly<Record<string, unknown>>) => void;
  /** Buttons beside the one that submits. */
  readonly children?: ComponentChildren;
}

/** A form made of a JSON Schema. */
export function SchemaForm({
  schema,
  initial = {},
  submit,
  isBusy,
  takesJson = false,
  onSubmit,
  children,
}: SchemaFormProps) {
  const fields = fieldsOf(schema, initial);
  // What has no field can only be shown as JSON.
  const hasAll = Object.keys(initial).every((name) => fields.some((field) => field.name === name));
  const form = useRef<HTMLFormElement>(null);
  const problem = useSignal<Error | undefined>(undefined);
  const json = useSignal(
    takesJson && (takesMore(schema) || !hasAll) ? JSON.stringify(initial, undefined, 2) : undefined,
  );

  function typed(): Readonly<Record<string, unknown>> {
    const data = new FormData(form.current ?? undefined);
    const textOf = (name: string): string =>
      data
        .getAll(name)
        .filter((one) => typeof one === "string")
        .join("\n");
    if (json.value !== undefined) return argumentsOf(textOf("arguments as JSON"));
    const values = fields.map((field) => [field.name, valueOf(field, textOf(field.name))] as const);
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  }

  function attempt(use: (values: Readonly<Record<string, unknown>>) => void): void {
    try {
      const values = typed();
      problem.value = undefined;
      use(values);
    } catch (error) {
      problem.value = error instanceof Error ? error : new Error(String(error));
    }
  }

  return (
    <form
      ref={form}
      class="form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        attempt(onSubmit);
      }}
    >
      {json.value === undefined ? (
        fields.map((field) => <Field key={field.name} field={field} />)
      ) : (
        <label>
          <span>Arguments as JSON</span>
          <textarea class="field" name="arguments as JSON" rows={8} spellcheck={false} defaultValue={json.value} />
        </label>
      )}
      {fields.length === 0 && json.value === undefined && <p class="soft">It takes no arguments.</p>}
      <Problem error={problem.value} />
      <div class="row-flex">
        <button type="submit" class="button primary" disabled={isBusy}>
          {submit}
        </button>
        {children}
        {takesJson && json.value === undefined && (
          <button
            type="button"
            class="button bare"
            onClick={() => attempt((values) => (json.value = JSON.stringify(values, undefined, 2)))}
          >
            Write as JSON
          </button>
        )}
        {json.value !== undefined && fields.length > 0 && (
          <button type="button" class="button bare" onClick={() => (json.value = undefined)}>
            Back to the form
          </button>
        )}
      </div>
    </form>
  );
}

function Field({ field }: { readonly field: FormField }) {
  return (
    <label>
      <span>
        <Foreign text={field.title} />
        {field.isRequired && <span class="faint"> required</span>}
      </span>
      <Input field={field} />
      {field.description !== "" && (
        <span class="hint">
          <Foreign text={field.description} />
        </span>
      )}
    </label>
  );
}

const truth: readonly FormChoice[] = ["true", "false"].map((value) => ({ value, label: value }));

function Input({ field: { name, kind, choices, initial } }: { readonly field: FormField }) {
  switch (kind) {
    case "choice":
    case "boolean":
      return <Choice name={name} choices={kind === "boolean" ? truth : choices} initial={initial} />;
    case "choices":
      return (
        <select class="field several" name={name} multiple size={Math.min(6, choices.length)}>
          {choices.map(({ value, label }) => (
            <option key={value} value={value} selected={initial.split("\n").includes(value)}>
              {visibleText(label)}
            </option>
          ))}
        </select>
      );
    case "json":
      return <textarea class="field" name={name} rows={3} placeholder="JSON" defaultValue={initial} />;
    default:
      return (
        <input
          class="field"
          name={name}
          type="text"
          inputMode={kind === "text" ? "text" : "decimal"}
          defaultValue={initial}
          autocomplete="off"
        />
      );
  }
}

function Choice({
  name,
  choices,
  initial,
}: {
  readonly name: string;
  readonly choices: readonly FormChoice[];
  readonly initial: string;
}) {
  return (
    <select class="field" name={name} defaultValue={initial}>
      <option value="">not given</option>
      {choices.map(({ value, label }) => (
        <option key={value} value={value} selected={value === initial}>
          {visibleText(label)}
        </option>
      ))}
    </select>
  );
}
