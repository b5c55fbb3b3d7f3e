/**
 * Handles failed steps of verbs: ADD undoes the earlier steps, and DEL continues and reports all failures at the end.
 *
 * @example
 * using undo = new Undo(call.log) // declared after the sockets it needs: `using` runs backwards
 * addLink(host, veth)
 * undo.defer("create veth", () => deleteLink(host, veth.name))
 * return call.answer(result, undo) // keeps the changes once the result is written
 */
export { Failures, Undo } from "./undo.ts"
