import type { TraceLink } from "../core/exchange.ts";
import { type MetricDefinition, metricDefinitions } from "./metric-names.ts";

/** Counts upwards; one per combination of label values, to be kept by whoever counts often. */
export interface CounterChild {
  inc(by?: number): void;
  /** For sums that are kept elsewhere and only read here. */
  set(total: number): void;
}

/** Goes up and down. */
export interface GaugeChild {
  set(value: number): void;
  inc(by?: number): void;
  dec(by?: number): void;
}

/** Sorts values into buckets. */
export interface HistogramChild {
  /** The trace that the value came about in, if somebody keeps it, serves as an example for its bucket. */
  observe(value: number, trace?: TraceLink): void;
}

/** A metric with its labels; the values come from known names only, see `boundedLabel`. */
export interface Metric<Label extends string, Child> {
  /** The child of these label values, the same one each time. Costs a look-up: keep it where it is used per message. */
  labels(values: Readonly<Record<Label, string>>): Child;
  /** Forgets the children with these values, as when a route is gone. */
  remove(values: Readonly<Partial<Record<Label, string>>>): void;
}

interface ChildOfType {
  readonly counter: CounterChild;
  readonly gauge: GaugeChild;
  readonly histogram: HistogramChild;
}

type MetricOf<D extends MetricDefinition> = Metric<D["labels"][number], ChildOfType[D["type"]]>;

type Definitions = Readonly<Record<string, MetricDefinition>>;

/** The metrics of some definitions, under their keys, and the text in which they are scraped. */
export interface Registry<D extends Definitions> {
  readonly metrics: { readonly [Key in keyof D]: MetricOf<D[Key]> };
  /** Calls back before each exposition, to set what is cheaper to ask than to follow; the answer takes it off again. */
  readonly onCollect: (callback: () => void) => () => void;
  /** All metrics in the Prometheus text format. */
  readonly text: () => string;
  /** Media type of that text. */
  readonly contentType: string;
  /** The same in the text format of OpenMetrics, with an example of a trace for each bucket that has one. */
  readonly openMetricsText: () => string;
}

/** The registry of every metric that the gateway has. */
export type Metrics = Registry<typeof metricDefinitions>;

/** A fresh set of all the gateway's metrics. */
export function createMetrics(): Metrics {
  return createRegistry(metricDefinitions);
}

/** A fresh set of metrics; those without labels stand at zero from the start. */
export function createRegistry<const D extends Definitions>(definitions: D): Registry<D> {
  const families = Object.entries(definitions).map(([key, definition]) => [key, createFamily(definition)] as const);
  const collectors = new Set<() => void>();
  const collected = (format: typeof formatMetric): string => {
    for (const collect of collectors) collect();
    return families.map(([, family]) => family.text(format)).join("");
  };
  return {
    // Each key got the children of its own definition's type just above.
    metrics: Object.fromEntries(families) as unknown as Registry<D>["metrics"],
    onCollect(callback) {
      collectors.add(callback);
      return () => {
        collectors.delete(callback);
      };
    },
    text: () => collected(formatMetric),
    contentType: expositionType,
    openMetricsText: () => collected(formatOpenMetric) + openMetricsEnd,
  };
}

/** A name if it is one of the known ones, else `other`: clients must not be able to invent label values. */
export function boundedLabel(name: string, known: ReadonlySet<string>): string {
  return known.has(name) ? name : "other";
}

interface ChildWithSamples {
  samples(labels: string): Sample[];
}

interface Entry {
  readonly values: readonly string[];
  readonly labels: string;
  readonly child: ChildWithSamples;
}

function createFamily(definition: MetricDefinition) {
  const { labels: names } = definition;
  const entries = new Map<string, Entry>();

  function childOf(given: Readonly<Record<string, string>>): ChildWithSamples {
    const values = names.map((name) => given[name] ?? "");
    const key = JSON.stringify(values);
    const known = entries.get(key);
    if (known !== undefined) return known.child;
    const child = createChild(definition);
    entries.set(key, { values, labels: formatLabels(names, values), child });
    return child;
  }

  if (names.length === 0) childOf({});
  return {
    labels: childOf,
    remove(given: Readonly<Record<string, string | undefined>>): void {
      for (const [key, { values }] of entries) {
        const fits = names.every((name, index) => given[name] === undefined || given[name] === values[index]);
        if (fits) entries.delete(key);
      }
    },
    text(format: typeof formatMetric): string {
      return format(
        definition,
        [...entries.values()].flatMap(({ labels, child }) => child.samples(labels)),
      );
    },
  };
}

function createChild({ type, buckets }: MetricDefinition): ChildWithSamples {
  return type === "histogram" ? new Histogram(buckets ?? []) : new Value();
}

class Value implements CounterChild, GaugeChild, ChildWithSamples {
  #value = 0;

  set(value: number): void {
    this.#value = value;
  }

  inc(by = 1): void {
    this.#value += by;
  }

  dec(by = 1): void {
    this.#value -= by;
  }

  samples(labels: string): Sample[] {
    return [{ labels, value: this.#value }];
  }
}

class Histogram implements HistogramChild, ChildWithSamples {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  /** By bucket, the last of each; there are none before the first value with a trace. */
  #exemplars: (Exemplar | undefined)[] | undefined;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number, trace?: TraceLink): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += value;
    if (trace?.isSampled !== true) return;
    this.#exemplars ??= [];
    this.#exemplars[at] = { traceId: trace.traceId, spanId: trace.spanId, value };
  }

  samples(labels: string): Sample[] {
    const prefix = labels === "" ? "" : `${labels},`;
    let count = 0;
    // Buckets are cumulative on the wire, and the last has no bound.
    const buckets = [...this.#bounds, Number.POSITIVE_INFINITY].map((bound, index): Sample => {
      count += this.#counts[index] ?? 0;
      const exemplar = this.#exemplars?.[index];
      return { suffix: "_bucket", labels: `${prefix}le="${formatNumber(bound)}"`, value: count, exemplar };
    });
    return [...buckets, { suffix: "_sum", labels, value: this.#sum }, { suffix: "_count", labels, value: count }];
  }
}

/** Media type of the text that `formatMetric` writes. */
const expositionType = "text/plain; version=0.0.4; charset=utf-8";

/** Media type of the text that `formatOpenMetric` writes. */
export const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** The last line of such a text. */
const openMetricsEnd = "# EOF\n";

/** One value as an example of those that were counted, and the trace that tells more about it. */
export interface Exemplar {
  readonly traceId: string;
  readonly spanId: string;
  readonly value: number;
}

/** One line of a metric: the suffix of its name, its labels as `formatLabels` writes them, its value. */
export interface Sample {
  readonly suffix?: string;
  readonly labels: string;
  readonly value: number;
  /** Shown where the format has a place for it. */
  readonly exemplar?: Exemplar | undefined;
}

/** A metric in the Prometheus text format 0.0.4: HELP, TYPE and its samples, each on a line of its own. */
function formatMetric(definition: MetricDefinition, samples: Iterable<Sample>): string {
  const { name, type, help } = definition;
  let text = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
  for (const { suffix = "", labels, value } of samples) {
    text += `${name}${suffix}${labels === "" ? "" : `{${labels}}`} ${formatNumber(value)}\n`;
  }
  return text;
}

/**
 * A metric in the text format of OpenMetrics 1.0: like that of Prometheus, with examples. There the name of a counter is
 * the one without `_total`.
 */
function formatOpenMetric(definition: MetricDefinition, samples: Iterable<Sample>): string {
  const { name, type, help } = definition;
  const family = type === "counter" ? name.replace(/_total$/u, "") : name;
  const ending = type === "counter" ? "_total" : "";
  let text = `# HELP ${family} ${escapeValue(help)}\n# TYPE ${family} ${type}\n`;
  for (const { suffix = ending, labels, value, exemplar } of samples) {
    const example = exemplar === undefined ? "" : ` # ${formatExemplar(exemplar)}`;
    text += `${family}${suffix}${labels === "" ? "" : `{${labels}}`} ${formatNumber(value)}${example}\n`;
  }
  return text;
}

function formatExemplar({ traceId, spanId, value }: Exemplar): string {
  return `{trace_id="${traceId}",span_id="${spanId}"} ${formatNumber(value)}`;
}

/** Label names with their values, escaped, without the braces around them. */
function formatLabels(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeValue(values[index] ?? "")}"`).join(",");
}

/** A number as the format wants it; the infinities have names of their own there. */
function formatNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', String.raw`\"`);
}
