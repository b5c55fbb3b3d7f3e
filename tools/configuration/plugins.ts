import type { Fields } from "../../pkg/config/mod.ts"
import { type DescribedPlugin, describedPlugins } from "../../suite/plugins.ts"
import { mergeFields, pluginKeys } from "./key-tables.ts"

/** A plugin as the tools for configurations know it. */
export interface Known extends DescribedPlugin {
  /** Every key of its object in a network's list: the specification's, and its own. */
  readonly fields: Fields
  /** Those of its own table. */
  readonly ownFields: Fields
}

/** Every plugin of this suite, in alphabetical order. */
export const knownPlugins: readonly Known[] = describedPlugins.map((row) => ({
  ...row,
  ownFields: row.fields,
  fields: mergeFields(mergeFields(pluginKeys, row.fields), row.handsOn ?? {}),
}))

/** The plugin of that name; undefined for one of another suite. */
export function findPlugin(name: string): Known | undefined {
  return knownPlugins.find((known) => known.name === name)
}

/** The capabilities that a plugin takes: the keys of `runtimeConfig` that it reads. */
export function capabilitiesOf({ ownFields }: Pick<Known, "ownFields">): string[] {
  const { runtimeConfig } = ownFields
  return runtimeConfig?.kind === "object" ? Object.keys(runtimeConfig.fields) : []
}
