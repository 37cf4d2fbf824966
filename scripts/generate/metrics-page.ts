import { labelMeanings, metricDefinitions, type MetricDefinition } from "../../src/telemetry/metric-names.ts";

/** The reference page of the metrics. */
export function renderMetricsPage(): string {
  const rows = Object.values(metricDefinitions).map((definition: MetricDefinition) => {
    const labels = definition.labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${definition.name}\` | ${definition.type} | ${labels} | ${definition.help} |`;
  });
  const labels = Object.entries(labelMeanings).map(([label, meaning]) => `| \`${label}\` | ${meaning} |`);
  const { buckets } = metricDefinitions.exchangeDuration;
  return `<!-- Generated from src/telemetry/metric-names.ts by \`npm run -s generate\`. Do not edit. -->

# Metrics

Served at \`/metrics\` of the admin listener in the Prometheus text format. Label values are names that the gateway knows
(routes, methods, error codes); anything else that a peer sends is counted as \`other\`, so peers cannot create time series.

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
${rows.join("\n")}

| Label | Values |
| --- | --- |
${labels.join("\n")}

Buckets of the histogram, in seconds: ${buckets.join(", ")}.
`;
}
