import { once } from "node:events";
import { createInterface } from "node:readline";

import type { HeldView, HoldDecision } from "../../gateway/admin/endpoints/holds.ts";
import { GatewayError } from "../../errors.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, refuseProgram, UsageError } from "../define-command.ts";
import type { ServingIo } from "../io.ts";
import { printable } from "../text-layout.ts";
import { findGateway, followGateway, postToGateway, type RunningGateway } from "./admin-client.ts";
import { applyEdit, formatForEditor } from "./edited-message.ts";
import { editText } from "./editor.ts";

/** Lines of a message that are shown at once. */
const shownLines = 20;

/** `headgate intercept FILTER`: holds matching messages of a running gateway and asks what to do with each. */
export const intercept = defineCommand("intercept", async ({ values, positionals, program }, io: ServingIo) => {
  refuseProgram(program);
  if (positionals.length === 0)
    throw new UsageError("expected a FILTER, such as `tool:delete_*`; `~a` holds everything");
  const { timeout, "on-timeout": onTimeout } = values;
  const found = await findGateway(values.url, io.env);
  if (!found.ok) {
    io.err(
      `headgate intercept: no gateway answers at ${found.places.join(" or ")}; start one, or name it with --url\n`,
    );
    return exitCodes.unreachable.code;
  }
  const query = new URLSearchParams({
    filter: positionals.join(" "),
    ...(timeout === undefined ? {} : { timeout }),
    ...(onTimeout === undefined ? {} : { onTimeout }),
  });
  const ended = new AbortController();
  void io.stopped().then(() => {
    ended.abort();
  });
  const desk = new Desk(found.gateway, io);
  const asking = desk.ask(ended.signal).finally(() => {
    ended.abort();
  });
  try {
    for await (const { event, data } of followGateway(
      found.gateway,
      `/holds/events?${query.toString()}`,
      ended.signal,
    )) {
      // The gateway is ours, and of the same version or it would not have our token.
      if (event === "open") desk.open(query.get("filter") ?? "");
      else if (event === "held") desk.add(data as HeldView);
      else if (event === "released") desk.remove((data as { readonly id: string }).id);
    }
  } catch (error) {
    // Everything else is the end of the stream, by us or by the gateway.
    if (error instanceof GatewayError) {
      ended.abort();
      throw error;
    }
  }
  const isByHand = ended.signal.aborted;
  ended.abort();
  await asking;
  io.out(isByHand ? "holding no more; what was held goes on\n" : "the gateway has ended\n");
  return isByHand ? exitCodes.ok.code : exitCodes.failed.code;
});

/** The held messages in front of a person, one at a time. */
class Desk {
  readonly #gateway: RunningGateway;
  readonly #io: ServingIo;
  readonly #waiting = new Map<string, HeldView>();
  /** Emits when the waiting messages change. */
  readonly #changes = new EventTarget();

  constructor(gateway: RunningGateway, io: ServingIo) {
    this.#gateway = gateway;
    this.#io = io;
  }

  open(filter: string): void {
    this.#io.out(`holding messages that match ${printable(filter)}; Ctrl+C or q lets them go\n`);
  }

  add(held: HeldView): void {
    this.#waiting.set(held.id, held);
    this.#changes.dispatchEvent(new Event("change"));
  }

  remove(id: string): void {
    this.#waiting.delete(id);
    this.#changes.dispatchEvent(new Event("change"));
  }

  /** Shows message after message and does what is typed, until the end of input, `q` or the signal. */
  async ask(signal: AbortSignal): Promise<void> {
    const lines = createInterface({ input: this.#io.stdin, terminal: false });
    const typed = lines[Symbol.asyncIterator]();
    let line: Promise<IteratorResult<string>> | undefined;
    const aborted = once(signal, "abort");
    try {
      let current: HeldView | undefined;
      while (!signal.aborted) {
        const [next] = this.#waiting.values();
        if (current !== undefined && !this.#waiting.has(current.id)) this.#io.out(`${current.id} is no longer held\n`);
        if (next !== undefined && next.id !== current?.id) this.#show(next, shownLines);
        if (next !== undefined) this.#io.out(prompt);
        current = next;
        line ??= typed.next();
        const changed = once(this.#changes, "change", { signal });
        const first = await Promise.race([line, changed.then(toUndefined, toUndefined), aborted.then(toUndefined)]);
        if (first === undefined) continue;
        line = undefined;
        const outcome = first.done === true ? "quit" : await this.#obey(first.value.trim(), current);
        if (outcome === "quit") return;
        if (outcome === "decided") current = undefined;
      }
    } finally {
      lines.close();
    }
  }

  async #obey(typed: string, held: HeldView | undefined): Promise<"quit" | "decided" | undefined> {
    const [word = "", ...rest] = typed.split(" ");
    const name = commandNames.find((one) => word !== "" && one.startsWith(word.toLowerCase()));
    if (name === "quit") return "quit";
    if (held === undefined) return undefined;
    if (name === "show") {
      this.#show(held, Infinity);
      return undefined;
    }
    const decision = name === undefined ? undefined : this.#decisionOf(name, rest.join(" "), held);
    if (decision === undefined) return undefined;
    const problem = await postToGateway(this.#gateway, `/holds/${encodeURIComponent(held.id)}`, decision);
    this.#io.out(problem === undefined ? `${done[decision.action]} ${held.id}\n` : `${printable(problem)}\n`);
    if (problem !== undefined) return undefined;
    this.#waiting.delete(held.id);
    return "decided";
  }

  #decisionOf(name: "let go" | "edit" | "drop" | "answer", rest: string, held: HeldView): HoldDecision | undefined {
    if (name === "let go") return { action: "continue" };
    if (name === "drop") return rest === "" ? { action: "block" } : { action: "block", reason: rest };
    if (name === "answer") {
      const text = rest === "" ? editText(answerTemplate, this.#io) : rest;
      const answer = text === undefined ? undefined : this.#parsed(text);
      // The API checks its form.
      return answer === undefined ? undefined : ({ action: "answer", answer } as HoldDecision);
    }
    const { text = "" } = held;
    const edited = editText(formatForEditor(text), this.#io);
    const result = edited === undefined ? undefined : applyEdit(text, edited);
    if (result?.ok === false) this.#io.out(`${printable(result.problem)}\n`);
    return result?.ok === true ? { action: "modify", text: result.bytes.toString() } : undefined;
  }

  #parsed(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      this.#io.out('an answer is JSON, such as {"result":{"content":[]}}\n');
      return undefined;
    }
  }

  #show(held: HeldView, most: number): void {
    const { id, direction, phase, method = "", target = "", route, principal, deadline, text = "" } = held;
    const lines = formatForEditor(text).trimEnd().split("\n");
    const left = Math.max(0, Math.round((deadline - Date.now()) / 1000));
    const kind = phase === "response" ? "answer to " : "";
    const head = `${id} ${direction === "c2s" ? "→" : "←"} ${kind}${method} ${target}`.trimEnd();
    const more = lines.length > most ? [`… ${lines.length - most} more lines; s shows all`] : [];
    const shown = [`${head}  (route ${route}, ${principal}, ${left} s left)`, ...lines.slice(0, most), ...more];
    this.#io.out(`\n${printable(shown.join("\n"))}\n`);
  }
}

const commandNames = ["let go", "edit", "drop", "answer", "show", "quit"] as const;
const prompt = "[l]et go, [e]dit, [d]rop, [a]nswer, [s]how all, [q]uit? ";
const answerTemplate = `${JSON.stringify({ result: { content: [{ type: "text", text: "" }] } }, undefined, 2)}\n`;
const done: Readonly<Record<HoldDecision["action"], string>> = {
  continue: "let go",
  modify: "changed",
  block: "dropped",
  answer: "answered",
};

function toUndefined(): undefined {
  return undefined;
}
