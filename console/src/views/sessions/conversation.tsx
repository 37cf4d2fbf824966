import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import type { ExchangeRecord, Frame } from "../../../../src/recorder/contract.ts";
import { StatusBadge } from "../../parts/badges.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { get } from "../../state/api.ts";
import { href } from "../../state/route.ts";
import { formatMs, formatTime } from "../../text.ts";
import { sentenceOf, textOf } from "./sentences.ts";

const quiet: ReadonlySet<string> = new Set(["ping", "logging/setLevel", "completion/complete"]);

/** What an agent did, for people who do not read JSON-RPC: one card for each thing it asked for or was asked. */
export function Conversation({ exchanges }: { readonly exchanges: readonly ExchangeRecord[] }) {
  const shown = exchanges.filter(({ kind, method }) => kind === "request" && !quiet.has(method));
  return (
    <ol class="cards">
      {shown.map((exchange) => (
        <Card key={exchange.id} exchange={exchange} />
      ))}
    </ol>
  );
}

interface Messages {
  readonly request: unknown;
  readonly answer: unknown;
}

function Card({ exchange }: { readonly exchange: ExchangeRecord }) {
  const element = useRef<HTMLLIElement>(null);
  const messages = useSignal<Messages | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    // Messages are fetched when a card comes into sight.
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      void readMessages(exchange, stop.signal).then(
        (found) => {
          messages.value = found;
        },
        () => {
          messages.value = { request: undefined, answer: undefined };
        },
      );
    });
    if (element.current !== null) observer.observe(element.current);
    return () => {
      observer.disconnect();
      stop.abort();
    };
  }, [exchange.id]);
  const { request, answer } = messages.value ?? { request: undefined, answer: undefined };
  const tone = exchange.state === "refused" ? " refused" : exchange.state === "ok" ? "" : " failed";
  const given = argumentsOf(request);
  const said = textOf(exchange, answer);
  return (
    <li ref={element} class={`card panel${tone}`}>
      <div class="row-flex">
        <h2>
          <Foreign text={sentenceOf(exchange)} />
        </h2>
        <StatusBadge state={exchange.state} />
        <span class="spacer" />
        <span class="faint">
          {formatTime(exchange.at)} · {formatMs(exchange.durationMs)}
        </span>
        <a class="soft" href={href("exchange", exchange.id)}>
          <u>details</u>
        </a>
      </div>
      {given.length > 0 && (
        <dl class="arguments">
          {given.map(([name, value]) => (
            <div key={name}>
              <dt class="faint" style={{ display: "inline" }}>
                <Foreign text={name} />
              </dt>{" "}
              <dd style={{ display: "inline" }}>
                <Foreign text={value} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {said !== "" && (
        <div class="quote">
          <Foreign text={said} />
        </div>
      )}
    </li>
  );
}

async function readMessages({ id, direction }: ExchangeRecord, signal: AbortSignal): Promise<Messages> {
  const { frames } = await get<{ readonly frames: Readonly<Record<string, readonly Frame[]>> }>(
    `exchanges/${encodeURIComponent(id)}`,
    {},
    signal,
  );
  const own = frames[id] ?? [];
  const near = direction === "c2s" ? "client" : "upstream";
  const answer = own.findLast(({ leg, kind }) => leg === near && (kind === "result" || kind === "error"));
  return { request: parsed(own[0]?.body), answer: parsed(answer?.body) };
}

function parsed(body: string | undefined): unknown {
  try {
    return body === undefined ? undefined : JSON.parse(body);
  } catch {
    return undefined;
  }
}

const maxValue = 200;

function argumentsOf(request: unknown): readonly (readonly [string, string])[] {
  const params = (request as { readonly params?: { readonly arguments?: unknown } } | undefined)?.params;
  const given = params?.arguments;
  if (typeof given !== "object" || given === null) return [];
  return Object.entries(given).map(([name, value]) => {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    return [name, text.length > maxValue ? `${text.slice(0, maxValue)}…` : text] as const;
  });
}
