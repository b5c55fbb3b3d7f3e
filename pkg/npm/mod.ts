/**
 * The npm package's two entries, `libcni` (`libcni.ts`) and `libcni/plugin` (`plugin.ts`); the suite itself does not
 * import them.
 */
export * from "./libcni.ts"
export { runPlugin } from "./run-plugin.ts"
