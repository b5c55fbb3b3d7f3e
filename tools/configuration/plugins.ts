import type { Fields } from "../../pkg/config/mod.ts"
import { type PluginRow, plugins } from "../../suite/plugins.ts"
import { mergeFields, pluginKeys } from "./key-tables.ts"

/** A plugin as the tools for configurations know it. */
export interface Known extends PluginRow {
  readonly name: string
  /** Every key of its object in a network's list: the specification's, and its own. */
  readonly fields: Fields
}

/** Every plugin of this suite, in alphabetical order. */
export const knownPlugins: readonly Known[] = plugins.map((row) => ({
  ...row,
  name: row.plugin.name,
  fields: mergeFields(mergeFields(pluginKeys, row.plugin.fields ?? {}), row.handsOn ?? {}),
}))

/** The plugin of that name; undefined for one of another suite. */
export function findPlugin(name: string): Known | undefined {
  return knownPlugins.find((known) => known.name === name)
}

/** The capabilities that a plugin takes: the keys of `runtimeConfig` that it reads. */
export function capabilitiesOf({ plugin }: Pick<Known, "plugin">): string[] {
  const runtimeConfig = plugin.fields?.runtimeConfig
  return runtimeConfig?.kind === "object" ? Object.keys(runtimeConfig.fields) : []
}
