import { openApiDocument } from "../../src/gateway/admin/openapi.ts";

/** The OpenAPI document of the admin API. */
export function renderOpenApi(): string {
  return `${JSON.stringify(openApiDocument(), undefined, 2)}\n`;
}
