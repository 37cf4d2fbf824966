import type { MetricDefinition } from "./metric-names.ts";

/** Media type of the text that `formatMetric` writes. */
export const expositionType = "text/plain; version=0.0.4; charset=utf-8";

/** Media type of the text that `formatOpenMetric` writes. */
export const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** The last line of such a text. */
export const openMetricsEnd = "# EOF\n";

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
export function formatMetric(definition: MetricDefinition, samples: Iterable<Sample>): string {
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
export function formatOpenMetric(definition: MetricDefinition, samples: Iterable<Sample>): string {
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
export function formatLabels(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeValue(values[index] ?? "")}"`).join(",");
}

/** A number as the format wants it; the infinities have names of their own there. */
export function formatNumber(value: number): string {
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
