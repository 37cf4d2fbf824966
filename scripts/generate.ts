// Writes the generated files, or with --check says which of them are not what the sources say.
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { renderOpenApi } from "./generate/admin-api.ts";
import { apiReferencePages, renderApiPage } from "./generate/api-pages.ts";
import { renderCliPage } from "./generate/cli-page.ts";
import { renderComparisonPage } from "./generate/comparison-page.ts";
import { renderConfigPage, renderConfigSchema } from "./generate/config.ts";
import { renderCorrelationPage } from "./generate/correlation.ts";
import { renderErrorsPage } from "./generate/errors-page.ts";
import { renderFeaturesPage } from "./generate/features-page.ts";
import { renderKongSettingsPage } from "./generate/kong-settings-page.ts";
import { renderLintConfig } from "./generate/lint-config.ts";
import { renderMetricsPage } from "./generate/metrics-page.ts";
import { renderRevisionTables } from "./generate/revisions.ts";

interface Generated {
  /** Path from the root of the repository. */
  readonly file: string;
  readonly render: () => string;
}

/** Every generated file. A new one needs a line here. */
const generated: readonly Generated[] = [
  { file: "docs/comparison.md", render: renderComparisonPage },
  { file: "docs/reference/api.md", render: renderApiPage },
  ...apiReferencePages,
  { file: "docs/reference/cli.md", render: renderCliPage },
  { file: "docs/reference/config.md", render: renderConfigPage },
  { file: "docs/reference/correlation.md", render: renderCorrelationPage },
  { file: "docs/reference/errors.md", render: renderErrorsPage },
  { file: "docs/reference/features.md", render: renderFeaturesPage },
  { file: "docs/reference/kong-settings.md", render: renderKongSettingsPage },
  { file: "docs/reference/metrics.md", render: renderMetricsPage },
  { file: "docs/reference/revisions.md", render: renderRevisionTables },
  { file: ".oxlintrc.json", render: renderLintConfig },
  { file: "schema/admin-api.openapi.json", render: renderOpenApi },
  { file: "schema/config.schema.json", render: renderConfigSchema },
];

/** Folders that hold generated files and nothing else. */
const generatedFolders = ["docs/reference", "schema"];

const root = resolve(import.meta.dirname, "..");
const check = process.argv.includes("--check");

const stale = generated.filter(({ file, render }) => {
  const path = resolve(root, file);
  const text = render();
  if (existsSync(path) && readFileSync(path, "utf8") === text) return false;
  if (!check) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.log(`wrote ${file}`);
  }
  return true;
});
const strangers = generatedFolders
  .flatMap((folder) => globSync(`${folder}/**/*.*`, { cwd: root }))
  .filter((file) => !generated.some((entry) => resolve(root, entry.file) === resolve(root, file)));

for (const file of strangers)
  console.error(`${file} is not made by scripts/generate.ts and stands among generated files`);
if (check) for (const { file } of stale) console.error(`${file} is out of date: npm run -s generate`);
process.exitCode = strangers.length > 0 || (check && stale.length > 0) ? 1 : 0;
