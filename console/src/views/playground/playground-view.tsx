import { useSignal } from "@preact/signals";

import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { RouteChoice, useRoute } from "../../parts/route-choice.tsx";
import { post } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
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

/** Tools, resources and prompts to try, through the gateway and its policy. */
export function PlaygroundView() {
  const route = useRoute();
  const token = useSignal("");
  const chosen = useSignal<Choice | undefined>(undefined);
  const given = token.value === "" ? {} : { token: token.value };
  const loaded = useLoaded(`${route.value} ${token.value}`, (signal) =>
    post<Offers>("playground/offers", { route: route.value, ...given }, signal),
  );
  const { value, error, isLoading } = loaded.value;
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
        <RouteChoice route={route} />
      </div>
      <div class="split">
        <nav class="choices" aria-label="What the server offers">
          <Problem error={error} />
          {isLoading && <Loading what="Asking the server…" />}
          {value !== undefined &&
            kinds.map(([kind, name]) => (
              <section key={kind}>
                <h3>
                  {name} ({value[kind].length})
                </h3>
                {value[kind].map((offer) => (
                  <button
                    key={offer.uri ?? offer.name}
                    type="button"
                    aria-current={chosen.value?.offer === offer}
                    onClick={() => (chosen.value = { kind, offer })}
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
          {chosen.value === undefined ? (
            <Empty title="Choose something to try">
              <p>It goes through the gateway like any client's call: policy decides, and it is recorded.</p>
            </Empty>
          ) : (
            <>
              <button type="button" class="button bare narrow-only" onClick={() => (chosen.value = undefined)}>
                ← Everything it offers
              </button>
              <Run
                key={`${chosen.value.kind} ${chosen.value.offer.uri ?? chosen.value.offer.name ?? ""}`}
                choice={chosen.value}
                target={{ route: route.value, ...given }}
              />
            </>
          )}
        </div>
      </div>
    </main>
  );
}
