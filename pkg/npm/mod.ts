/**
 * The npm package's two entries, `libcni` (`libcni.ts`) and `libcni/plugin` (`plugin.ts`); nothing of the suite imports
 * them.
 */
export * from "./libcni.ts"
export { runPlugin } from "./run-plugin.ts"
