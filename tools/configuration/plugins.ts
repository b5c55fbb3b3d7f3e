import type { Fields } from "../../pkg/config/mod.ts"
import { type DescribedPlugin, describedPlugins } from "../../suite/plugins.ts"
import { mergeFields, pluginKeys } from "./key-tables.ts"

/** A plugin of this suite, with tables of its keys. */
export interface Known extends DescribedPlugin {
  /** All keys of the plugin's object in a network list: those of the specification and its own. */
  readonly fields: Fields
  readonly ownFields: Fields
}

/** All plugins of this suite, in alphabetical order. */
export const knownPlugins: readonly Known[] = describedPlugins.map((row) => ({
  ...row,
  ownFields: row.fields,
  fields: mergeFields(mergeFields(pluginKeys, row.fields), row.handsOn ?? {}),
}))

/** Returns the plugin with this name, or undefined for a plugin of another suite. */
export function findPlugin(name: string): Known | undefined {
  return knownPlugins.find((known) => known.name === name)
}

/** Returns the capabilities of a plugin: the keys of `runtimeConfig` that it reads. */
export function capabilitiesOf({ ownFields }: Pick<Known, "ownFields">): string[] {
  const { runtimeConfig } = ownFields
  return runtimeConfig?.kind === "object" ? Object.keys(runtimeConfig.fields) : []
}
