import type { PolicyExplanation } from "../../../../src/gateway/evaluation/explanation.ts";
import type { ExchangeStatus, Frame, FrameDecision } from "../../../../src/recorder/contract.ts";
import { WideContent } from "../../parts/wide-content.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Icon, type IconName } from "../../parts/icon.tsx";
import { Loading, Problem } from "../../parts/notices.tsx";
import { get } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { href } from "../../state/route.ts";
import { may } from "../../state/session.ts";
import { formatMs } from "../../text.ts";

/** The decisions that were made when the message passed. */
export function decisionsOf(frames: readonly Frame[]): readonly FrameDecision[] {
  return frames.flatMap(({ decision }) => (decision === undefined ? [] : [decision]));
}

/** What the gateway said itself instead of an answer; undefined for those who may not read messages. */
export function gatewayMessageOf(frames: readonly Frame[]): string | undefined {
  const refusal = frames.find((frame) => frame.refusal !== undefined)?.refusal;
  if (refusal !== undefined) return refusal.reason;
  const error = frames.findLast(({ kind, gatewayCode, body }) => {
    return kind === "error" && gatewayCode !== undefined && body !== undefined;
  });
  try {
    const { message } = (JSON.parse(error?.body ?? "{}") as { error?: { message?: unknown } }).error ?? {};
    return typeof message === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}

/** How an exchange ended where the gateway itself ended it. */
export interface GatewayEnding {
  readonly state: ExchangeStatus;
  readonly code: string | undefined;
  readonly message: string | undefined;
}

/** In one sentence: why this was allowed or refused. */
export function Verdict({
  decisions,
  ending,
  hasPolicy,
}: {
  readonly decisions: readonly FrameDecision[];
  readonly ending: GatewayEnding;
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
  if (ending.state === "invalid" || ending.state === "orphan")
    return (
      <Said
        tone="bad"
        icon="cross"
        title={ending.state === "invalid" ? "Not a valid message" : "A response that answers no open request"}
      >
        The gateway keeps it as it came.
      </Said>
    );
  if (ending.code !== undefined) {
    const { state, code, message } = ending;
    const title =
      state === "refused"
        ? `Refused by a check of the gateway: ${code}`
        : state === "cancelled"
          ? "Cancelled by its sender"
          : `Allowed, but it failed: ${code}`;
    return (
      <Said tone={state === "cancelled" ? "warn" : "bad"} icon={state === "cancelled" ? "info" : "cross"} title={title}>
        {message === undefined ? "The error reference says when this happens." : <Foreign text={message} />}
      </Said>
    );
  }
  const changed = decisions.find(({ effect }) => effect === "change" || effect === "filter" || effect === "changed");
  if (changed !== undefined)
    return (
      <Said
        tone="warn"
        icon="info"
        title={
          changed.by === "policy" && changed.phase === "request"
            ? `Allowed by ${nameOf(changed)}, and changed`
            : `Allowed, and changed by ${nameOf(changed)}`
        }
      >
        {changed.hidden === undefined
          ? "Changes shows what is different, and Why the rules that applied."
          : `${changed.hidden} of ${changed.listed ?? changed.hidden} entries were hidden.`}
      </Said>
    );
  const allowed = decisions.find(({ effect, by }) => by === "policy" && effect === "allow");
  if (allowed !== undefined)
    return (
      <Said tone="good" icon="check" title={`Allowed by ${nameOf(allowed)}`}>
        {allowed.read === undefined || allowed.read.length === 0
          ? "The decision read nothing from the message."
          : `The decision looked at ${allowed.read.join(", ")}.`}
      </Said>
    );
  return (
    <Said
      tone="good"
      icon="check"
      title={hasPolicy ? "Allowed: no rule applied to it" : "Allowed: this route has no policy"}
    >
      {hasPolicy ? "The policy covers other kinds of messages." : "Everything that a client asks for is forwarded."}
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
export function Why({
  id,
  route,
  frames,
}: {
  readonly id: string;
  readonly route: string;
  readonly frames: readonly Frame[];
}) {
  const decisions = decisionsOf(frames);
  const loaded = useLoaded(id, (signal) =>
    get<PolicyExplanation>(`exchanges/${encodeURIComponent(id)}/why`, {}, signal),
  );
  const { value, error } = loaded.value;
  if (error !== undefined) return <Problem error={error} />;
  if (value === undefined) return <Loading what="Evaluating the rules…" />;
  return (
    <div class="stack">
      {value.policy === "none" && <p class="soft">This route has no policy now: no rule refuses anything.</p>}
      {value.policy === "remote" && (
        <p class="soft">
          An external decision point decides on this route; the reasons of its rules are not known here.
        </p>
      )}
      {value.policy === "unrecorded" && (
        <p class="soft">The message was not recorded, so the rules cannot be tried on it.</p>
      )}
      {value.phases.map((phase) => (
        <PhaseRules key={phase.phase} phase={phase} />
      ))}
      {decisions.length > 0 && <Recorded decisions={decisions} />}
      {frames.some(({ diagnostic }) => diagnostic !== undefined) && <Findings frames={frames} />}
      {value.policy !== "remote" && (
        <p>
          <a class="soft" href={href("policy", undefined, { route })}>
            <u>Try {value.policy === "none" ? "" : "other "}rules on recorded traffic</u>
          </a>
        </p>
      )}
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
            <li
              key={id}
              class={`rule${id === phase.rule ? ` decided ${action === "deny" ? "bad" : "good"}` : ""}`}
              aria-current={id === phase.rule}
            >
              <Icon name={iconOf(action, outcome)} size={14} />
              <b class="rule-id">
                <Foreign text={id} />
              </b>
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
                  <Foreign text={value ?? (may("bodies") ? "absent" : "hidden: you may not read messages")} />
                )}
              </dd>
            </>
          ))}
        </dl>
      )}
    </section>
  );
}

/** A rule that refuses is no success, also where its condition holds. */
function iconOf(action: string, outcome: string): IconName {
  if (outcome === "true") return action === "deny" ? "cross" : "check";
  return outcome === "failed" ? "info" : "dash";
}

function Recorded({ decisions }: { readonly decisions: readonly FrameDecision[] }) {
  return (
    <section>
      <h3>Decided at the time</h3>
      <WideContent label="Decisions">
        <table class="labelled">
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
            {decisions.map(({ by, name, phase, effect, enforced, rule, reason, durationMs }, index) => (
              <tr key={index}>
                <td>
                  {by} <span class="soft">{name}</span>
                </td>
                <td data-label="on">{phase}</td>
                <td>
                  {effect}
                  {enforced ? "" : ", only logged"}
                  {reason !== undefined && (
                    <span class="soft">
                      {" "}
                      “<Foreign text={reason} />”
                    </span>
                  )}
                </td>
                <td class="name" data-label={rule === undefined ? undefined : "rule"}>
                  <Foreign text={rule ?? ""} />
                </td>
                <td class="right" data-label="took">
                  {formatMs(durationMs)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideContent>
    </section>
  );
}

const severities = { error: "bad", warn: "warn", info: "note" } as const;

/** What was found about the messages; it changes nothing by itself. */
export function Findings({ frames }: { readonly frames: readonly Frame[] }) {
  const found = frames.flatMap(({ diagnostic, seq }) => (diagnostic === undefined ? [] : [{ ...diagnostic, seq }]));
  return (
    <section>
      <h3>Found in the messages</h3>
      {found.length === 0 && <p class="faint">Nothing: there was no message, so no rule was evaluated.</p>}
      <ul class="rules">
        {found.map(({ code, severity, message, seq }) => (
          <li key={seq} class="rule">
            <Icon name="info" size={14} />
            <b>{code}</b>
            <code>
              <Foreign text={message} />
            </code>
            <span class={`badge ${severities[severity]}`}>{severity}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
