/**
 * Network namespaces: opening, telling apart, and running something inside. The only room that calls setns(2).
 *
 * @example
 * using sandbox = Netns.open(call.namespace) // or a path
 * using inside = sandbox.run(() => RouteSocket.open()) // the socket stays there, the thread does not
 */
export { listNamespaces, NamespaceFile, Netns, type Sync } from "./netns.ts"
