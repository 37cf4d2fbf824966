import { monitorEventLoopDelay } from "node:perf_hooks";

import type { Clock, TraceLink } from "../core/exchange.ts";
import { type MetricDefinition, metricDefinitions } from "./metric-names.ts";

/** A counter with its label values. */
export interface CounterChild {
  inc(by?: number): void;
  /** For totals that are counted elsewhere. */
  set(total: number): void;
}

/** A gauge with its label values. */
export interface GaugeChild {
  set(value: number): void;
  inc(by?: number): void;
  dec(by?: number): void;
}

/** A histogram with its label values. */
export interface HistogramChild {
  /** A sampled trace becomes the exemplar of the value's bucket. */
  observe(value: number, trace?: TraceLink): void;
}

/** A metric with its labels. Label values must be bounded in number, see `boundedLabel`. */
export interface Metric<Label extends string, Child> {
  /** The child of these label values. Keep it where it is used per message: this is a look-up. */
  labels(values: Readonly<Record<Label, string>>): Child;
  /** Removes the children with these values. */
  remove(values: Readonly<Partial<Record<Label, string>>>): void;
}

interface ChildOfType {
  readonly counter: CounterChild;
  readonly gauge: GaugeChild;
  readonly histogram: HistogramChild;
}

type MetricOf<D extends MetricDefinition> = Metric<D["labels"][number], ChildOfType[D["type"]]>;

type Definitions = Readonly<Record<string, MetricDefinition>>;

/** Metrics by the keys of their definitions. */
export interface Registry<D extends Definitions> {
  readonly metrics: { readonly [Key in keyof D]: MetricOf<D[Key]> };
  /** Called before each exposition, to set values that are read rather than counted; returns how to stop. */
  readonly onCollect: (callback: () => void) => () => void;
  /** All metrics as text. Default: `prometheus`. Those of other processes of this gateway are added. */
  readonly text: (format?: ExpositionFormat, others?: readonly MetricSamples[]) => string;
  /** All metrics as values, for another process. */
  readonly samples: () => MetricSamples;
}

/** The lines of each metric, by its name. */
export type MetricSamples = Readonly<Record<string, readonly Sample[]>>;

/** The metrics of a gateway. */
export type Metrics = Registry<typeof metricDefinitions>;

/** Makes the metrics of a gateway. */
export function createMetrics(): Metrics {
  return createRegistry(metricDefinitions);
}

/** Makes metrics of definitions; those without labels start at zero. */
export function createRegistry<const D extends Definitions>(definitions: D): Registry<D> {
  const families = Object.entries(definitions).map(([key, definition]) => [key, createFamily(definition)] as const);
  const collectors = new Set<() => void>();
  return {
    // Each key has the family of its own definition.
    metrics: Object.fromEntries(families) as unknown as Registry<D>["metrics"],
    onCollect(callback) {
      collectors.add(callback);
      return () => {
        collectors.delete(callback);
      };
    },
    samples: () => {
      for (const collect of collectors) collect();
      return Object.fromEntries(families.map(([, { definition, samples }]) => [definition.name, samples()]));
    },
    text: (format = "prometheus", others = []) => {
      for (const collect of collectors) collect();
      const all = families
        .map(([, { definition, samples }]) => {
          const ofOthers = others.map(({ [definition.name]: theirs = [] }) => theirs);
          return formatMetric(definition, joinSamples(definition, [samples(), ...ofOthers]), format);
        })
        .join("");
      return format === "openmetrics" ? `${all}# EOF\n` : all;
    },
  };
}

/** The name if it is known, else `other`, so that clients cannot invent label values. */
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
    definition,
    samples: (): readonly Sample[] => [...entries.values()].flatMap(({ labels, child }) => child.samples(labels)),
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
  /** The last exemplar of each bucket. */
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
    // Buckets are cumulative in the text, and the last has no bound.
    const buckets = [...this.#bounds, Number.POSITIVE_INFINITY].map((bound, index): Sample => {
      count += this.#counts[index] ?? 0;
      const exemplar = this.#exemplars?.[index];
      return { suffix: "_bucket", labels: `${prefix}le="${formatNumber(bound)}"`, value: count, exemplar };
    });
    return [...buckets, { suffix: "_sum", labels, value: this.#sum }, { suffix: "_count", labels, value: count }];
  }
}

/** The text formats for scraping. Only OpenMetrics has exemplars. */
export type ExpositionFormat = "prometheus" | "openmetrics";

/** Media types of the formats. */
export const expositionTypes: Readonly<Record<ExpositionFormat, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** One observed value, and its trace. */
export interface Exemplar {
  readonly traceId: string;
  readonly spanId: string;
  readonly value: number;
}

/** One line of a metric; its labels are formatted. */
export interface Sample {
  readonly suffix?: string;
  readonly labels: string;
  readonly value: number;
  readonly exemplar?: Exemplar | undefined;
}

/** Gauges that have no meaning as a sum over the processes of a gateway. */
const notSummed: Readonly<Record<string, (...values: number[]) => number>> = {
  ping_authorize_circuit_breaker_state: Math.max,
  headgate_policy_breaker_open: Math.max,
  headgate_peers: Math.max,
  headgate_peers_with_other_configuration: Math.max,
  process_start_time_seconds: Math.min,
  process_uptime_seconds: Math.max,
  nodejs_eventloop_lag_mean_seconds: Math.max,
  nodejs_eventloop_lag_p99_seconds: Math.max,
  nodejs_eventloop_lag_max_seconds: Math.max,
};

/** The samples of one metric in several processes, as one. */
function joinSamples({ name }: MetricDefinition, all: readonly (readonly Sample[])[]): Iterable<Sample> {
  const [own = [], ...others] = all;
  if (others.length === 0) return own;
  const join = notSummed[name] ?? ((one: number, other: number) => one + other);
  const joined = new Map<string, Sample>();
  for (const sample of all.flat()) {
    const key = `${sample.suffix ?? ""}{${sample.labels}`;
    const known = joined.get(key);
    joined.set(key, known === undefined ? sample : { ...sample, value: join(known.value, sample.value) });
  }
  // Buckets of one histogram stay together, even if only one process has it.
  return joined.values();
}

/** The rest of a process that has ended: its counters stay in the sums, its gauges do not. */
export function endedSamples(samples: MetricSamples): MetricSamples {
  const gauges = new Set(
    Object.values(metricDefinitions).flatMap(({ type, name }) => (type === "gauge" ? [name] : [])),
  );
  return Object.fromEntries(Object.entries(samples).filter(([name]) => !gauges.has(name)));
}

/** Adds the counts of processes that have ended, so that their number does not matter. */
export function addSamples(one: MetricSamples, other: MetricSamples): MetricSamples {
  const definitions: readonly MetricDefinition[] = Object.values(metricDefinitions);
  return Object.fromEntries(
    definitions.map((definition) => {
      const { name } = definition;
      return [name, [...joinSamples(definition, [one[name] ?? [], other[name] ?? []])]];
    }),
  );
}

/** A metric with its samples, each on a line of its own. OpenMetrics names counters without their `_total`. */
function formatMetric(definition: MetricDefinition, samples: Iterable<Sample>, format: ExpositionFormat): string {
  const { name, type, help } = definition;
  const isOpenMetrics = format === "openmetrics";
  const isRenamed = isOpenMetrics && type === "counter";
  const family = isRenamed ? name.replace(/_total$/u, "") : name;
  const ending = isRenamed ? "_total" : "";
  let text = `# HELP ${family} ${isOpenMetrics ? escapeValue(help) : escapeHelp(help)}\n# TYPE ${family} ${type}\n`;
  for (const { suffix = ending, labels, value, exemplar } of samples) {
    const example = exemplar === undefined || !isOpenMetrics ? "" : ` # ${formatExemplar(exemplar)}`;
    text += `${family}${suffix}${labels === "" ? "" : `{${labels}}`} ${formatNumber(value)}${example}\n`;
  }
  return text;
}

function formatExemplar({ traceId, spanId, value }: Exemplar): string {
  return `{trace_id="${traceId}",span_id="${spanId}"} ${formatNumber(value)}`;
}

/** Label names with their escaped values, without braces. */
function formatLabels(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeValue(values[index] ?? "")}"`).join(",");
}

/** A number; the formats have names of their own for the infinities. */
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

const nanosecondsPerSecond = 1e9;
const microsecondsPerSecond = 1e6;
// The histogram includes its own sampling interval.
const resolutionMs = 20;

/** Updates the metrics of this process until disposed: memory, CPU, event loop. */
export function watchProcess(registry: Metrics, clock: Clock): Disposable {
  const { metrics } = registry;
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  metrics.startTime.labels({}).set(clock.wall() / 1000 - process.uptime());

  const stopCollecting = registry.onCollect(() => {
    const { rss, heapUsed, heapTotal } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    metrics.uptime.labels({}).set(process.uptime());
    metrics.cpu.labels({}).set((user + system) / microsecondsPerSecond);
    metrics.residentMemory.labels({}).set(rss);
    metrics.heapUsed.labels({}).set(heapUsed);
    metrics.heapTotal.labels({}).set(heapTotal);
    metrics.eventLoopLagMean.labels({}).set(lagSeconds(delays.mean));
    metrics.eventLoopLagP99.labels({}).set(lagSeconds(delays.percentile(99)));
    metrics.eventLoopLagMax.labels({}).set(lagSeconds(delays.max));
    delays.reset();
  });

  return {
    [Symbol.dispose]() {
      stopCollecting();
      delays.disable();
    },
  };
}

function lagSeconds(nanoseconds: number): number {
  // NaN before the first sample.
  if (Number.isNaN(nanoseconds)) return 0;
  return Math.max(0, nanoseconds / nanosecondsPerSecond - resolutionMs / 1000);
}
