import { applyChange } from "../../core/interceptors/change.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { memberString, memberValue, pointerTo } from "../../protocol/json/read.ts";
import type { ParseLimits } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import type { ListEntry, ListKind, PolicyRefusal } from "../provider/provider.ts";
import {
  allSettledOrPromise,
  andThen,
  type CheckOutcome,
  type Evaluator,
  type MaybePromise,
  notEvaluable,
} from "./evaluator.ts";
import {
  completedResourceUris,
  completionReference,
  type ResourceMention,
  resourceMentions,
} from "./mentioned-names.ts";
import { nonCanonicalUriReason } from "./canonical-uri.ts";

/** Keeps names that the caller may not know of out of everything but lists, where they stand in plain sight. */
export interface HiddenNames {
  /** Looks at a message that asks and has passed: what it is about may be hidden. */
  checkRequest(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
  /** Looks at a result: links, embedded resources and completed values that are hidden are taken out. */
  checkResult(subject: InspectedMessage): MaybePromise<CheckOutcome>;
}

const hidden: PolicyRefusal = { kind: "hidden", code: "hidden", reason: "there is no such name" };

/** Makes the checks for one route; where a provider knows nothing of lists, nothing is hidden. */
export function createHiddenNames(judge: Evaluator, limits: ParseLimits | undefined): HiddenNames {
  /** Lets a message about one name pass where the name may be known. */
  function about(subject: InspectedMessage, kind: ListKind, name: string, memory: unknown): MaybePromise<CheckOutcome> {
    return andThen(judge.checkVisibility(subject, kind, [bare(kind, name)]), (sight): CheckOutcome => {
      if (sight.type === "refuse") return sight;
      return sight.visible[0] === true
        ? { type: "pass", message: subject.message, memory }
        : { type: "refuse", refusal: hidden, decisionId: "" };
    });
  }

  /** Takes out what speaks of resources that are hidden. */
  function without(
    subject: InspectedMessage,
    mentions: readonly ResourceMention[],
    memory: unknown,
  ): MaybePromise<CheckOutcome> {
    if (mentions.length === 0) return { type: "pass", message: subject.message, memory };
    const uris = [...new Set(mentions.map(({ uri }) => uri))];
    const entries = uris.map((uri) => bare("resource", uri));
    return andThen(judge.checkVisibility(subject, "resource", entries), (sight): CheckOutcome => {
      if (sight.type === "refuse") return sight;
      const shown = new Set(uris.filter((_, index) => sight.visible[index] === true));
      const gone = mentions.filter(({ uri }) => !shown.has(uri));
      return removed(subject, gone, memory);
    });
  }

  function removed(subject: InspectedMessage, mentions: readonly ResourceMention[], memory: unknown): CheckOutcome {
    const { message, exchange } = subject;
    if (mentions.length === 0) return { type: "pass", message, memory };
    // From the end, so that the places before keep their numbers; one element may speak of two.
    const remove = [...new Set(mentions.map(({ path }) => pointerTo(path)))].toReversed();
    const outcome = applyChange(message, { remove }, { revision: exchange.revision, limits });
    return outcome.ok
      ? { type: "pass", message: outcome.message, memory }
      : judge.refuse(subject, `hidden names could not be taken out: ${outcome.problem}`);
  }

  /**
   * The resources that a listen wants to hear of are subscribed to by it: each is asked about as the request that
   * subscribes to it in other revisions, and those that may not be are left out, as if the server did not honour them.
   */
  function listening(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome> {
    const wanted: unknown = Reflect.get(
      Object(memberValue(subject.message, "params.notifications")),
      "resourceSubscriptions",
    );
    if (!Array.isArray(wanted) || wanted.length === 0) return { type: "pass", message: subject.message, memory };
    const mentions = wanted.flatMap((uri: unknown, index): ResourceMention[] =>
      typeof uri === "string" ? [{ uri, path: [...subscriptionsPath, index] }] : [],
    );
    const rulings = allSettledOrPromise(mentions.map(({ uri }) => subscription(subject, uri)));
    return andThen(rulings, (known) => {
      const refused = mentions.filter((_, index) => known[index]?.type !== "pass");
      const ruling = removed(subject, refused, memory);
      if (ruling.type === "refuse") return ruling;
      const left = subject.with(ruling.message);
      const places = mentions
        .filter((_, index) => known[index]?.type === "pass")
        .map(({ uri }, index): ResourceMention => ({ uri, path: [...subscriptionsPath, index] }));
      return without(left, places, memory);
    });
  }

  function subscription(subject: InspectedMessage, uri: string): MaybePromise<CheckOutcome> {
    if (nonCanonicalUriReason(uri) !== undefined) return judge.refuse(subject, "a URI is not plain", notEvaluable);
    const text = `{"jsonrpc":"2.0","id":${subject.answerId?.json ?? 0},"method":"resources/subscribe","params":{"uri":${JSON.stringify(uri)}}}`;
    const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
    if (!outcome.ok || outcome.form !== "single")
      return judge.refuse(subject, "a subscription could not be asked about");
    const { message } = outcome;
    return judge.evaluate(InspectedMessage.of({ ...subject.exchange, message, original: message }), undefined);
  }

  return {
    checkRequest: (subject, memory) => {
      const { message, method } = subject;
      const untouched: CheckOutcome = { type: "pass", message, memory };
      if (method === "subscriptions/listen") return listening(subject, memory);
      if (!judge.filtersLists) return untouched;
      if (method === "notifications/resources/updated") {
        const uri = memberString(message, "params.uri");
        return uri === undefined ? untouched : about(subject, "resource", uri, memory);
      }
      if (method === "notifications/tasks") return without(subject, resourceMentions(message), memory);
      if (method !== "completion/complete") return untouched;
      const reference = completionReference(message);
      return reference === undefined ? untouched : about(subject, reference.kind, reference.name, memory);
    },
    checkResult: (subject) => {
      const { message, request } = subject;
      if (!judge.filtersLists || message.kind !== "result" || request === undefined)
        return { type: "pass", message, memory: undefined };
      if (request.method === "completion/complete") {
        const completed = completedResourceUris(request, message);
        const mentions = completed.map(({ uri, index }): ResourceMention => ({
          uri,
          path: [...valuesPath, index],
        }));
        return without(subject, mentions, undefined);
      }
      const mentions = resourceMentions(message);
      // What was asked for by its URI has been decided about as such.
      const own = request.method === "resources/read" ? memberString(request, "params.uri") : undefined;
      return without(subject, own === undefined ? mentions : mentions.filter(({ uri }) => uri !== own), undefined);
    },
  };
}

const subscriptionsPath = ["params", "notifications", "resourceSubscriptions"] as const;
const valuesPath = ["result", "completion", "values"] as const;

/** An entry of which nothing is known but its name. */
function bare(kind: ListKind, name: string): ListEntry {
  const key = kind === "resource" ? "uri" : kind === "resource-template" ? "uriTemplate" : "name";
  return { name, value: { [key]: name } };
}

/** Whether messages that ask may be about something hidden, so that the checks above have something to do. */
export function mayNameHidden(method: string): boolean {
  return nameMethods.has(method);
}

const nameMethods: ReadonlySet<string> = new Set([
  "completion/complete",
  "subscriptions/listen",
  "notifications/resources/updated",
  "notifications/tasks",
]);
