import { useSignal } from "@preact/signals";

import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { RouteChoice, useRoute } from "../../parts/route-choice.tsx";
import { post } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { go, href, place, replace } from "../../state/route.ts";
import { Run } from "./run.tsx";

/** An entry of a list of the server. */
export interface Offer {
  readonly name?: string;
  readonly uri?: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: unknown;
  readonly arguments?: readonly { readonly name: string; readonly description?: string; readonly required?: boolean }[];
}

interface Offers {
  readonly tools: readonly Offer[];
  readonly resources: readonly Offer[];
  readonly prompts: readonly Offer[];
}

const kinds = [
  ["tools", "Tools"],
  ["resources", "Resources"],
  ["prompts", "Prompts"],
] as const;

/** Something to try. */
export interface Choice {
  readonly kind: keyof Offers;
  readonly offer: Offer;
}

/** From so many on, they are found sooner by typing. */
const manyOffers = 12;

/** What identifies an offer in its list. */
function keyOf({ uri, name }: Offer): string {
  return uri ?? name ?? "";
}

/** What the address names. */
function choiceIn(offers: Offers | undefined): Choice | undefined {
  for (const [kind] of kinds) {
    const key = place.value.query.get(kind);
    const offer = offers?.[kind].find((one) => keyOf(one) === key);
    if (offer !== undefined) return { kind, offer };
  }
  return undefined;
}

/** Tools, resources and prompts to try, through the gateway and its policy. The address names the chosen one. */
export function PlaygroundView() {
  const route = useRoute();
  const token = useSignal("");
  const wanted = useSignal("");
  const given = token.value === "" ? {} : { token: token.value };
  const loaded = useLoaded(`${route.value} ${token.value}`, (signal) =>
    post<Offers>("playground/offers", { route: route.value, ...given }, signal),
  );
  const { value, error, isLoading } = loaded.value;
  const chosen = choiceIn(value);
  const from = place.value.query.get("from") ?? undefined;
  const addressOf = (choice: Choice | undefined): string =>
    href("playground", undefined, {
      route: route.value,
      ...(choice === undefined ? {} : { [choice.kind]: keyOf(choice.offer) }),
    });
  const isMissing = value !== undefined && kinds.some(([kind]) => place.value.query.has(kind));
  const hasMany = value !== undefined && kinds.reduce((sum, [kind]) => sum + value[kind].length, 0) >= manyOffers;
  const isWanted = ({ name = "", title = "", description = "", uri = "" }: Offer): boolean =>
    [name, title, description, uri].join(" ").toLowerCase().includes(wanted.value.trim().toLowerCase());
  return (
    <main class="view">
      <div class="head">
        <h1>Playground</h1>
        <span class="spacer" />
        <label class="row-flex soft">
          Token
          <input
            class="field"
            type="password"
            autocomplete="off"
            placeholder="if the route needs one"
            onChange={({ currentTarget }) => (token.value = currentTarget.value.trim())}
          />
        </label>
        <RouteChoice route={route} onChoose={() => replace(addressOf(undefined))} />
      </div>
      <div class="split">
        <nav class="choices" aria-label="What the server offers">
          <Problem error={error} />
          {isLoading && <Loading what="Asking the server…" />}
          {hasMany && (
            <input
              class="field"
              type="search"
              aria-label="Find in what the server offers"
              placeholder="Find"
              onInput={({ currentTarget }) => (wanted.value = currentTarget.value)}
            />
          )}
          {value !== undefined &&
            kinds.map(([kind, name]) => (
              <section key={kind}>
                <h3>
                  {name} ({value[kind].length})
                </h3>
                {value[kind].filter(isWanted).map((offer) => (
                  <button
                    key={keyOf(offer)}
                    type="button"
                    aria-current={chosen?.offer === offer}
                    onClick={() => go(addressOf({ kind, offer }))}
                  >
                    <b>
                      <Foreign text={offer.name ?? offer.uri ?? ""} />
                    </b>
                    <div class="faint cut">
                      <Foreign text={offer.title ?? offer.description ?? offer.uri ?? ""} />
                    </div>
                  </button>
                ))}
              </section>
            ))}
        </nav>
        <div class="chosen" tabIndex={0} role="region" aria-label="Try it">
          {chosen === undefined ? (
            <Empty title={isMissing ? "The server does not offer this to you" : "Choose something to try"}>
              <p>It goes through the gateway like any client's call: policy decides, and it is recorded.</p>
            </Empty>
          ) : (
            <>
              <button type="button" class="button bare narrow-only" onClick={() => go(addressOf(undefined))}>
                ← Everything it offers
              </button>
              <Run
                key={`${chosen.kind} ${keyOf(chosen.offer)} ${from ?? ""}`}
                choice={chosen}
                target={{ route: route.value, ...given }}
                from={from}
              />
            </>
          )}
        </div>
      </div>
    </main>
  );
}
