/**
 * The two entries of the npm package: `libcni` (`libcni.ts`) and `libcni/plugin` (`plugin.ts`). The suite itself does
 * not import them.
 */
export * from "./libcni.ts"
export { runPlugin } from "./run-plugin.ts"
