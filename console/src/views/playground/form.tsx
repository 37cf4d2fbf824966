import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

import { Foreign } from "../../parts/foreign.tsx";
import { Problem } from "../../parts/notices.tsx";
import { fieldsOf, type FormField, valueOf } from "./schema-form.ts";

/** What a form is given. */
export interface SchemaFormProps {
  readonly schema: unknown;
  readonly submit: string;
  readonly isBusy: boolean;
  readonly onSubmit: (values: Readonly<Record<string, unknown>>) => void;
}

/** A form made of a JSON Schema. */
export function SchemaForm({ schema, submit, isBusy, onSubmit }: SchemaFormProps) {
  const fields = fieldsOf(schema);
  const form = useRef<HTMLFormElement>(null);
  const problem = useSignal<Error | undefined>(undefined);
  return (
    <form
      ref={form}
      class="form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (form.current === null) return;
        const typed = new FormData(form.current);
        try {
          const values = fields.map((field) => {
            const text = typed.get(field.name);
            return [field.name, valueOf(field, typeof text === "string" ? text : "")] as const;
          });
          problem.value = undefined;
          onSubmit(Object.fromEntries(values.filter(([, value]) => value !== undefined)));
        } catch (error) {
          problem.value = error instanceof Error ? error : new Error(String(error));
        }
      }}
    >
      {fields.map((field) => (
        <label key={field.name}>
          <span>
            <Foreign text={field.title} />
            {field.isRequired && <span class="bad-text"> (required)</span>}
          </span>
          <Input field={field} />
          {field.description !== "" && (
            <span class="hint">
              <Foreign text={field.description} />
            </span>
          )}
        </label>
      ))}
      {fields.length === 0 && <p class="soft">It takes no arguments.</p>}
      <Problem error={problem.value} />
      <div>
        <button type="submit" class="button primary" disabled={isBusy}>
          {submit}
        </button>
      </div>
    </form>
  );
}

function Input({ field: { name, kind, choices, initial } }: { readonly field: FormField }) {
  switch (kind) {
    case "choice":
      return <Choice name={name} choices={choices} initial={initial} />;
    case "boolean":
      return <Choice name={name} choices={["true", "false"]} initial={initial} />;
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
  readonly choices: readonly string[];
  readonly initial: string;
}) {
  return (
    <select class="field" name={name} defaultValue={initial}>
      <option value="">not given</option>
      {choices.map((choice) => (
        <option key={choice} value={choice} selected={choice === initial}>
          {choice}
        </option>
      ))}
    </select>
  );
}
