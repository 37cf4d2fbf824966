import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { isObject } from "../../lib/is-object.ts";
import { andThen, isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { applyEdits, planRemovals, splice } from "../../protocol/json/edit.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { completionReference, hiddenRefusal, type ListEntry, type ListKind } from "../provider/provider.ts";
import { canonicalUri, isCanonicalUri } from "../provider/canonical-uri.ts";
import { type CheckOutcome, type Evaluator, maxParts, notEvaluable, tooManyParts } from "./evaluator.ts";
import { completedResources, isUriTemplate, type ResourceMention, resourceMentions } from "./mentioned-names.ts";
import { requestFromTexts } from "./refusals.ts";

/** Keeps hidden names out of messages other than lists. */
export interface HiddenNames {
  /** Checks a request or notification that has passed: what it is about may be hidden. */
  checkRequest(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
  /** Removes hidden links, embedded resources and completed values from a result. */
  checkResult(subject: InspectedMessage): MaybePromise<CheckOutcome>;
}

/** Creates the checks of one route; they hide nothing if the provider does not filter lists. */
export function createHiddenNames(evaluator: Evaluator): HiddenNames {
  function checkName(
    subject: InspectedMessage,
    kind: ListKind,
    name: string,
    memory: unknown,
  ): MaybePromise<CheckOutcome> {
    const names = kind === "resource" ? spellings(name) : [name];
    const entries = names.map((spelling) => bareEntry(kind, spelling));
    return andThen(evaluator.checkVisibility(subject, kind, entries), (visibility): CheckOutcome => {
      if (visibility.type === "refuse") return visibility;
      return visibility.visible.every(Boolean)
        ? { type: "pass", message: subject.message, memory }
        : { type: "refuse", refusal: hiddenRefusal, decisionId: "" };
    });
  }

  function removeHidden(
    subject: InspectedMessage,
    mentions: readonly ResourceMention[],
    memory: unknown,
  ): MaybePromise<CheckOutcome> {
    const uris = [...new Set(mentions.flatMap(({ uri }) => spellings(uri)))];
    const entries = uris.map((uri) => bareEntry("resource", uri));
    return andThen(evaluator.checkVisibility(subject, "resource", entries), (visibility): CheckOutcome => {
      if (visibility.type === "refuse") return visibility;
      const visible = new Set(uris.filter((_, index) => visibility.visible[index] === true));
      return removeMentions(
        subject,
        mentions.filter(({ uri }) => !spellings(uri).every((spelling) => visible.has(spelling))),
        memory,
      );
    });
  }

  function removeMentions(
    subject: InspectedMessage,
    mentions: readonly ResourceMention[],
    memory: unknown,
  ): CheckOutcome {
    const { message } = subject;
    if (mentions.length === 0) return { type: "pass", message, memory };
    const { bytes, outline } = message;
    // In one walk: a message may mention as many resources as it has room for.
    const edits = applyEdits(bytes, outline, planRemovals(mentions.map(({ path }) => path)));
    return edits.ok
      ? evaluator.change(subject, { bytes: splice(bytes, outline, edits.replacements) }, memory)
      : evaluator.refuse(subject, `hidden names could not be removed: ${edits.problem}`);
  }

  /**
   * A listen request subscribes to resources. Each is evaluated as the `resources/subscribe` request of other revisions,
   * and left out if it is refused, as if the server did not support it.
   */
  function checkSubscriptions(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome> {
    const notifications = memberValue(subject.message, "params.notifications") ?? {};
    const wanted: unknown = isObject(notifications) ? (notifications["resourceSubscriptions"] ?? []) : undefined;
    // A lenient server may read a single URI, or an object of them, as a list.
    if (!isStringList(wanted))
      return evaluator.refuse(subject, "resourceSubscriptions is not a list of URIs", notEvaluable);
    if (wanted.length > maxParts) return evaluator.refuse(subject, "too many resources in one request", tooManyParts);
    const mentions = wanted.map((uri, index): ResourceMention => ({ uri, path: [...subscriptionsPath, index] }));
    if (mentions.length === 0) return { type: "pass", message: subject.message, memory };
    const checks = mentions.map(({ uri }) => checkSubscription(subject, uri));
    return andThen(all(checks), (outcomes) => {
      const isAllowed = (_: ResourceMention, index: number): boolean => outcomes[index]?.type === "pass";
      const outcome = removeMentions(
        subject,
        mentions.filter((mention, index) => !isAllowed(mention, index)),
        memory,
      );
      if (outcome.type === "refuse") return outcome;
      const remaining = mentions
        .filter(isAllowed)
        .map(({ uri }, index): ResourceMention => ({ uri, path: [...subscriptionsPath, index] }));
      return removeHidden(subject.with(outcome.message), remaining, memory);
    });
  }

  function checkSubscription(subject: InspectedMessage, uri: string): MaybePromise<CheckOutcome> {
    if (!isCanonicalUri(uri)) return evaluator.refuse(subject, "a subscribed URI is not canonical", notEvaluable);
    const message = requestFromTexts(
      subject.answerId?.json ?? "0",
      "resources/subscribe",
      `{"uri":${JSON.stringify(uri)}}`,
    );
    if (message === undefined) return evaluator.refuse(subject, "a subscription cannot be evaluated");
    const { exchange } = subject;
    const upstream = exchange.tracking.subscriptions?.get(uri);
    const tracking = upstream === undefined ? exchange.tracking : { ...exchange.tracking, upstream };
    return evaluator.evaluate(InspectedMessage.of({ ...exchange, message, original: message, tracking }), undefined);
  }

  return {
    checkRequest: (subject, memory) => {
      const { message, method } = subject;
      const unchanged: CheckOutcome = { type: "pass", message, memory };
      if (method === "subscriptions/listen") return checkSubscriptions(subject, memory);
      if (!evaluator.hidesNames) return unchanged;
      if (method === "notifications/resources/updated") {
        const uri = memberString(message, "params.uri");
        return uri === undefined ? unchanged : checkName(subject, "resource", uri, memory);
      }
      if (method === "notifications/tasks") return removeHidden(subject, resourceMentions(message), memory);
      const reference = method === "completion/complete" ? completionReference(message) : undefined;
      if (reference === undefined) return unchanged;
      const { kind, name } = reference;
      const isTemplate = kind === "resource" && isUriTemplate(name);
      return checkName(subject, isTemplate ? "resource-template" : kind, name, memory);
    },
    checkResult: (subject) => {
      const { message, request } = subject;
      if (!evaluator.hidesNames || message.kind !== "result" || request === undefined)
        return { type: "pass", message, memory: undefined };
      if (request.method === "completion/complete")
        return removeHidden(subject, completedResources(request, message), undefined);
      // The URI that the request names was evaluated with the request.
      const own = request.method === "resources/read" ? memberString(request, "params.uri") : undefined;
      const mentions = resourceMentions(message).filter(({ uri }) => uri !== own && canonicalUri(uri) !== own);
      return removeHidden(subject, mentions, undefined);
    },
  };
}

function isStringList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

const subscriptionsPath = ["params", "notifications", "resourceSubscriptions"] as const;

/** A URI as the server writes it and in the form that rules are about: it is visible only if both are. */
function spellings(uri: string): readonly string[] {
  const canonical = canonicalUri(uri);
  return canonical === undefined || canonical === uri ? [uri] : [uri, canonical];
}

/** A list entry of which only the name is known. */
function bareEntry(kind: ListKind, name: string): ListEntry {
  const key = kind === "resource" ? "uri" : kind === "resource-template" ? "uriTemplate" : "name";
  return { name, value: { [key]: name } };
}

function all<T>(values: readonly MaybePromise<T>[]): MaybePromise<readonly T[]> {
  const ready: T[] = [];
  for (const value of values) {
    if (isPromise(value)) return Promise.all(values);
    ready.push(value);
  }
  return ready;
}

/** Whether requests and notifications of a method may be about hidden names. */
export function mayNameHidden(method: string): boolean {
  return nameMethods.has(method);
}

const nameMethods: ReadonlySet<string> = new Set([
  "completion/complete",
  "subscriptions/listen",
  "notifications/resources/updated",
  "notifications/tasks",
]);
