import { useSignal } from "@preact/signals";

import type { DriftList, DriftView as OneDrift } from "../../../../src/gateway/admin/wire.ts";
import { diffWords } from "../../diff.ts";
import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { get, post } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { may } from "../../state/session.ts";
import { formatCount } from "../../text.ts";

const tones = { info: "", warn: "warn", critical: "bad" } as const;
const typeNames = { added: "new", changed: "changed", removed: "gone" } as const;

/** What servers offer and nobody has approved, word by word, with what cannot be seen made visible. */
export function DriftView() {
  const round = useSignal(0);
  const loaded = useLoaded(String(round.value), (signal) => get<DriftList>("drift", {}, signal));
  const { value, error } = loaded.value;
  const drifts = value?.routes.flatMap(({ route, drifts: own }) => own.map((drift) => ({ route, drift }))) ?? [];
  return (
    <main class="view">
      <div class="head">
        <h1>Drift</h1>
        <span class="spacer" />
        {value?.configured === true && (
          <span class="soft">
            {drifts.length === 1 ? "1 definition differs" : `${formatCount(drifts.length)} definitions differ`} from
            what was approved
          </span>
        )}
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Definitions">
        <Problem error={error} />
        {value === undefined && error === undefined && <Loading what="Comparing…" />}
        {value?.configured === false && (
          <Empty title="No definitions are approved on this gateway">
            <p>
              Set <code>drift.lock</code> in the configuration to be told when a server changes a tool.
            </p>
          </Empty>
        )}
        {value?.configured === true && drifts.length === 0 && <Empty title="Everything is as approved" />}
        <div class="stack">
          {may("approve") &&
            value?.routes.map(({ route, drifts: own }) => (
              <ApproveSeveral key={route} route={route} drifts={own} onDecided={() => round.value++} />
            ))}
          {drifts.map(({ route, drift }) => (
            <DriftCard key={`${route} ${drift.key}`} route={route} drift={drift} onDecided={() => round.value++} />
          ))}
        </div>
      </div>
    </main>
  );
}

/** Approves all definitions of a route that nothing warns of, such as those of a new server. */
function ApproveSeveral({
  route,
  drifts,
  onDecided,
}: {
  readonly route: string;
  readonly drifts: readonly OneDrift[];
  readonly onDecided: () => void;
}) {
  const chosen = drifts.filter(({ severity }) => severity !== "critical");
  const left = drifts.length - chosen.length;
  if (chosen.length < 2) return null;
  return (
    <section class="panel" aria-label={`All of ${route}`}>
      <header>
        <h2>
          All {formatCount(chosen.length)} of <Foreign text={route} />
        </h2>
        <span class="soft">
          {left === 0
            ? "Read them first."
            : `Read them first. ${formatCount(left)} critical ones are approved one by one.`}
        </span>
      </header>
      <div class="body">
        <ApproveForm
          route={route}
          drifts={chosen}
          label={`Reason to approve all of ${route}`}
          button={`Approve all ${formatCount(chosen.length)}`}
          onDecided={onDecided}
        />
      </div>
    </section>
  );
}

/** Takes the reason of an approval, and approves. */
function ApproveForm({
  route,
  drifts,
  label,
  button,
  onDecided,
}: {
  readonly route: string;
  readonly drifts: readonly OneDrift[];
  readonly label: string;
  readonly button: string;
  readonly onDecided: () => void;
}) {
  const reason = useSignal("");
  const problem = useSignal<Error | undefined>(undefined);
  const isBusy = useSignal(false);

  async function approve(): Promise<void> {
    isBusy.value = true;
    problem.value = undefined;
    try {
      const definitions = drifts.map(({ key, digest }) => ({ key, digest }));
      await post("drift/approve", { route, definitions, reason: reason.value });
    } catch (error) {
      problem.value = error instanceof Error ? error : new Error(String(error));
    } finally {
      isBusy.value = false;
      // Whether it was approved or has changed meanwhile: what is listed is no longer so.
      onDecided();
    }
  }

  return (
    <form
      class="row-flex"
      onSubmit={(event) => {
        event.preventDefault();
        void approve();
      }}
    >
      <input
        class="field"
        style={{ flex: "1 1 240px" }}
        aria-label={label}
        placeholder="Why the change is fine"
        required
        maxLength={1000}
        onInput={({ currentTarget }) => (reason.value = currentTarget.value)}
      />
      <button type="submit" class="button primary" disabled={isBusy.value || reason.value.trim() === ""}>
        {button}
      </button>
      <Problem error={problem.value} />
    </form>
  );
}

interface DriftCardProps {
  readonly route: string;
  readonly drift: OneDrift;
  readonly onDecided: () => void;
}

function DriftCard({ route, drift, onDecided }: DriftCardProps) {
  return (
    <article class="panel">
      <header>
        <h2>
          <Foreign text={drift.key} />
        </h2>
        <span class="soft">
          <Foreign text={route} />
        </span>
        <span class={`badge ${tones[drift.severity]}`}>{drift.severity}</span>
        <span class="badge">{typeNames[drift.type]}</span>
      </header>
      <div class="body stack">
        {drift.reasons.length > 0 && (
          <ul class="bad-text">
            {drift.reasons.map((text) => (
              <li key={text}>
                <Foreign text={text} />
              </li>
            ))}
          </ul>
        )}
        <Fields drift={drift} />
        {!may("approve") && <p class="faint">Only people with the role of an approver can approve.</p>}
        {may("approve") && (
          <ApproveForm
            route={route}
            drifts={[drift]}
            label={`Reason to approve ${drift.key}`}
            button="Approve"
            onDecided={onDecided}
          />
        )}
      </div>
    </article>
  );
}

/** The fields that differ, as words that came and went. */
function Fields({ drift: { offered, approved, fields } }: { readonly drift: OneDrift }) {
  const names = fields.length > 0 ? fields : Object.keys(offered?.fields ?? approved?.fields ?? {});
  return (
    <dl class="stack">
      {names.map((name) => (
        <div key={name}>
          <dt class="faint">{name}</dt>
          <dd class="word-diff mono">
            {diffWords(textOf(approved?.fields[name]), textOf(offered?.fields[name])).map(({ type, text }, index) => {
              const shown = <Foreign key={index} text={text} />;
              return type === "same" ? (
                shown
              ) : type === "added" ? (
                <ins key={index}>{shown}</ins>
              ) : (
                <del key={index}>{shown}</del>
              );
            })}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function textOf(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}
