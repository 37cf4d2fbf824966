import { type SettingDefinition, settingDefinitions } from "../../src/policy/sideband/settings.ts";

const typeNames = {
  string: "string",
  integer: "integer",
  boolean: "boolean",
  integers: "integer[]",
  strings: "string[]",
} as const satisfies Record<SettingDefinition["type"], string>;

/** The reference page of the Kong plugin's settings. */
export function renderKongSettingsPage(): string {
  const rows = Object.entries(settingDefinitions).map(([name, definition]) => {
    const cells = [`\`${name}\``, typeNames[definition.type], defaultOf(definition), constraintOf(definition)];
    return `| ${[...cells, definition.description].join(" | ")} |`;
  });
  return `<!-- Generated from src/policy/sideband/settings.ts by \`npm run -s generate\`. Do not edit. -->

# Settings of the Kong plugin

Kong checks them when you write them, and the plugin checks them again when it starts: an invalid configuration answers 500, and
Kong's log says why. How to use them: [PingAuthorize in Kong](../guides/kong.md).

| Setting | Type | Default | Constraint | What it is |
| --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
}

function defaultOf(definition: SettingDefinition): string {
  if ("optional" in definition) return "none";
  if (!("default" in definition) || definition.default === undefined) return "required";
  return `\`${JSON.stringify(definition.default).replaceAll('"', "").replaceAll(",", ", ")}\``;
}

function constraintOf(definition: SettingDefinition): string {
  switch (definition.type) {
    case "string":
      return definition.oneOf === undefined ? "not empty" : oneOf(definition.oneOf);
    case "integer":
      return definition.min === 1 ? "> 0" : `≥ ${definition.min}`;
    case "integers":
      return `each ${definition.between.join(" to ")}`;
    case "strings":
      return definition.oneOf === undefined ? "" : oneOf(definition.oneOf);
    case "boolean":
      return "";
  }
}

function oneOf(values: readonly string[]): string {
  return `one of ${values.map((value) => `\`${value}\``).join(", ")}`;
}
