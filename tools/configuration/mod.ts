/** The keys of every plugin: descriptions, types and limits. Schemas, manual pages, `lint` and `explain` use them. */

export { schemaFiles } from "./json-schema.ts"
export { cellsOf, plain } from "./key-docs.ts"
export { anything, mergeFields, networkKeys, pluginKeys, reservedKeys } from "./key-tables.ts"
export { capabilitiesOf, findPlugin, type Known, knownPlugins } from "./plugins.ts"
export { schemaCommand } from "./schema.ts"
