/**
 * Network namespaces: opening and comparing them, and calling functions inside. This is the only package that calls
 * setns(2).
 *
 * @example
 * using sandbox = Netns.open(call.namespace) // or a path
 * using inside = sandbox.openRoute() // the socket stays there, the thread does not
 */
export { findNamespacePath, listNamespaces } from "./find.ts"
export { NamespaceFile, Netns, type Sync } from "./netns.ts"
