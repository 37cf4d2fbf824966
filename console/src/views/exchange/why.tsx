import type { PolicyExplanation } from "../../../../src/gateway/evaluation/explanation.ts";
import type { Frame, FrameDecision } from "../../../../src/recorder/contract.ts";
import { WideContent } from "../../parts/wide-content.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Loading, Problem } from "../../parts/notices.tsx";
import { get } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { formatMs } from "../../text.ts";

/** The decisions that were made when the message passed. */
export function decisionsOf(frames: readonly Frame[]): readonly FrameDecision[] {
  return frames.flatMap(({ decision }) => (decision === undefined ? [] : [decision]));
}

/** In one sentence: why this was allowed or refused. */
export function Verdict({
  decisions,
  gatewayCode,
  hasPolicy,
}: {
  readonly decisions: readonly FrameDecision[];
  readonly gatewayCode: string | undefined;
  readonly hasPolicy: boolean;
}) {
  const denied = decisions.find(({ effect, enforced }) => enforced && (effect === "deny" || effect === "blocked"));
  if (denied !== undefined)
    return (
      <Said tone="bad" icon="cross" title={`Refused by ${nameOf(denied)}`}>
        {denied.reason === undefined ? null : (
          <>
            The agent was told: “<Foreign text={denied.reason} />”
          </>
        )}
      </Said>
    );
  if (gatewayCode !== undefined)
    return (
      <Said tone="bad" icon="cross" title={`The gateway answered with ${gatewayCode}`}>
        The error reference says when this happens.
      </Said>
    );
  const changed = decisions.find(({ effect }) => effect === "change" || effect === "filter" || effect === "changed");
  if (changed !== undefined)
    return (
      <Said tone="warn" icon="info" title={`Allowed and changed by ${nameOf(changed)}`}>
        {changed.hidden === undefined
          ? "Changes shows what is different."
          : `${changed.hidden} of ${changed.listed ?? changed.hidden} entries were hidden.`}
      </Said>
    );
  const allowed = decisions.find(({ effect, by }) => by === "policy" && effect === "allow");
  if (allowed !== undefined)
    return (
      <Said tone="good" icon="check" title={`Allowed by ${nameOf(allowed)}`}>
        {allowed.read === undefined || allowed.read.length === 0
          ? "The decision needed nothing of the message."
          : `The decision looked at ${allowed.read.join(", ")}.`}
      </Said>
    );
  return (
    <Said
      tone="good"
      icon="check"
      title={hasPolicy ? "Allowed: no rule concerned it" : "Allowed: this route has no policy"}
    >
      {hasPolicy ? "The policy judges other kinds of messages." : "Everything that a client asks for is forwarded."}
    </Said>
  );
}

function nameOf({ by, name, rule }: FrameDecision): string {
  if (rule !== undefined) return `rule ${rule}`;
  return by === "policy" ? `the policy (${name})` : `the interceptor ${name}`;
}

function Said({
  tone,
  icon,
  title,
  children,
}: {
  readonly tone: "good" | "warn" | "bad";
  readonly icon: "check" | "cross" | "info";
  readonly title: string;
  readonly children: preact.ComponentChildren;
}) {
  return (
    <div class={`verdict ${tone}`}>
      <Icon name={icon} size={18} />
      <div>
        <h2>
          <Foreign text={title} />
        </h2>
        <p class="soft">{children}</p>
      </div>
    </div>
  );
}

/** The outcome of every rule of the running policy for a recorded exchange, and what was decided then. */
export function Why({ id, decisions }: { readonly id: string; readonly decisions: readonly FrameDecision[] }) {
  const loaded = useLoaded(id, (signal) =>
    get<PolicyExplanation>(`exchanges/${encodeURIComponent(id)}/why`, {}, signal),
  );
  const { value, error } = loaded.value;
  if (error !== undefined) return <Problem error={error} />;
  if (value === undefined) return <Loading what="Evaluating the rules…" />;
  return (
    <div class="stack">
      {value.policy === "none" && <p class="soft">This route has no policy now: everything is allowed.</p>}
      {value.policy === "remote" && (
        <p class="soft">A decision point outside decides on this route; it keeps the reasons of its rules to itself.</p>
      )}
      {value.policy === "unrecorded" && (
        <p class="soft">The message was not recorded, so the rules cannot be tried on it.</p>
      )}
      {value.phases.map((phase) => (
        <PhaseRules key={phase.phase} phase={phase} />
      ))}
      {decisions.length > 0 && <Recorded decisions={decisions} />}
    </div>
  );
}

function PhaseRules({ phase }: { readonly phase: PolicyExplanation["phases"][number] }) {
  return (
    <section>
      <h3>
        {phase.phase === "request" ? "Rules for the request" : "Rules for the answer"}: {phase.effect}
      </h3>
      {phase.rules.length === 0 ? (
        <p class="faint">No rule had to be evaluated.</p>
      ) : (
        <ol class="rules">
          {phase.rules.map(({ id, action, shadow, condition, outcome, problem }) => (
            <li key={id} class={`rule${id === phase.rule ? " decided" : ""}`}>
              <Icon name={outcome === "true" ? "check" : outcome === "failed" ? "cross" : "dash"} size={14} />
              <b>{id}</b>
              <code>
                <Foreign text={problem ?? condition} />
              </code>
              <span class={`badge ${outcome === "true" ? (action === "deny" ? "bad" : "good") : ""}`}>
                {action}
                {shadow ? ", shadow" : ""}: {outcome}
              </span>
            </li>
          ))}
        </ol>
      )}
      {phase.read.length > 0 && (
        <dl class="facts mono">
          {phase.read.map(({ path, value }) => (
            <>
              <dt key={path}>
                <Foreign text={path} />
              </dt>
              <dd key={`${path}=`}>
                {phase.missing.includes(path) ? (
                  <span class="faint">not in the recording</span>
                ) : (
                  <Foreign text={value ?? "absent"} />
                )}
              </dd>
            </>
          ))}
        </dl>
      )}
    </section>
  );
}

function Recorded({ decisions }: { readonly decisions: readonly FrameDecision[] }) {
  return (
    <section>
      <h3>Decided when it passed</h3>
      <WideContent label="Decisions">
        <table>
          <thead>
            <tr>
              <th>By</th>
              <th>On</th>
              <th>Effect</th>
              <th>Rule</th>
              <th class="right">Took</th>
            </tr>
          </thead>
          <tbody>
            {decisions.map(({ by, name, phase, effect, enforced, rule, durationMs }, index) => (
              <tr key={index}>
                <td>
                  {by} <span class="soft">{name}</span>
                </td>
                <td>{phase}</td>
                <td>
                  {effect}
                  {enforced ? "" : ", only logged"}
                </td>
                <td>
                  <Foreign text={rule ?? ""} />
                </td>
                <td class="right">{formatMs(durationMs)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideContent>
    </section>
  );
}
