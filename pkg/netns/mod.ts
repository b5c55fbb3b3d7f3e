/**
 * Network namespaces: opening, telling apart, and running something inside. The only room that calls setns(2).
 *
 * @example
 * using sandbox = Netns.open(call.namespace) // or a path
 * using inside = sandbox.openRoute() // the socket stays there, the thread does not
 */
export { findNamespacePath, listNamespaces } from "./find.ts"
export { NamespaceFile, Netns, type Sync } from "./netns.ts"
