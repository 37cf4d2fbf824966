import { describe, expect, it } from "vitest";

import { loadConfig } from "../../src/config/load.ts";
import { exampleConfig, renderConfigPage } from "./config.ts";

describe("the reference page of the configuration", () => {
  it("has an example that loads", async () => {
    const result = await loadConfig({
      text: exampleConfig,
      env: { WEATHER_TOKEN: "x" },
      readFile: () => Promise.reject(new Error("nothing to read")),
    });
    expect(result).toMatchObject({ ok: true, warnings: [] });
    expect(renderConfigPage()).toContain(exampleConfig);
  });

  it("has a row for nested fields and for each form of an upstream", () => {
    const page = renderConfigPage();
    expect(page).toContain("| `tls.certFile` | string | required |");
    expect(page).toContain("| `<name>.timeouts.tools` | map of duration |");
    expect(page).toContain("### With `command`");
    expect(page).toContain("| `trustedProxies` | string[] |");
    expect(page).toContain("| `rules[].deny` | string |");
    expect(page).not.toContain("undefined");
  });
});
