import type { Frame } from "../../../../src/recorder/contract.ts";

/** Who may spend time on a message on its way through the gateway; `held` is the time until somebody decided. */
type Spender = "interceptors" | "held" | "policy";

/** A part of the time that an exchange took. */
export interface TimingPart {
  readonly name: string;
  readonly kind: "in" | Spender | "upstream" | "out";
  readonly ms: number;
}

const isAnswer = ({ kind }: Frame): boolean => kind === "result" || kind === "error";

/** Where the time of an exchange went; the order is that of the message's way. */
export function timingOf(frames: readonly Frame[], direction: "c2s" | "s2c"): readonly TimingPart[] {
  const [near, far] = direction === "c2s" ? ["client", "upstream"] : ["upstream", "client"];
  const [first] = frames;
  const sent = frames.find(({ leg, passing, kind }) => leg === far && passing === "sent" && kind !== "decision");
  const came = frames.findLast((frame) => frame.leg === far && frame.passing === "received" && isAnswer(frame));
  const end = frames.findLast((frame) => frame.leg === near && frame.passing === "sent" && isAnswer(frame));
  if (first === undefined) return [];
  const spent = spentBefore(frames);
  const total = (name: Spender, phase: "request" | "response"): number => spent[`${name} ${phase}`] ?? 0;
  const spenders = (["interceptors", "held", "policy"] as const).filter(
    (name) => `${name} request` in spent || `${name} response` in spent,
  );
  const before = spenders.reduce((sum, name) => sum + total(name, "request"), 0);
  const after = spenders.reduce((sum, name) => sum + total(name, "response"), 0);
  const until = (sent ?? end ?? frames.at(-1) ?? first).mono;
  const parts: TimingPart[] = [{ name: "gateway, request", kind: "in", ms: Math.max(0, until - first.mono - before) }];
  for (const name of spenders) parts.push({ name, kind: name, ms: total(name, "request") + total(name, "response") });
  if (sent !== undefined && came !== undefined) {
    parts.push({ name: direction === "c2s" ? "server" : "client", kind: "upstream", ms: came.mono - sent.mono });
    if (end !== undefined)
      parts.push({ name: "gateway, answer", kind: "out", ms: Math.max(0, end.mono - came.mono - after) });
  }
  return parts;
}

/** The time that each of them spent, by its name and the phase. */
function spentBefore(frames: readonly Frame[]): Readonly<Record<string, number>> {
  const spent: Record<string, number> = {};
  const add = (name: Spender, phase: string, ms: number): void => {
    const key = `${name} ${phase}`;
    spent[key] = (spent[key] ?? 0) + ms;
  };
  let holder: string | undefined;
  for (const [index, { decision, mono }] of frames.entries()) {
    if (decision === undefined) continue;
    const { by, name, effect, durationMs } = decision;
    const phase = decision.phase === "request" ? "request" : "response";
    if (by === "policy") add("policy", phase, durationMs);
    // What an interceptor reports after it began to hold a message includes the wait.
    else if (name !== holder) add("interceptors", phase, durationMs);
    const isHeld = by === "interceptor" && effect === "held";
    if (isHeld) add("held", phase, (frames[index + 1]?.mono ?? mono) - mono);
    holder = isHeld ? name : undefined;
  }
  return spent;
}
