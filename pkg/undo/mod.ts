/**
 * Taking back and carrying on: what ADD does when a step fails, and what DEL does when one fails.
 *
 * @example
 * using undo = new Undo(call.log) // declared after the sockets it needs: `using` runs backwards
 * addLink(host, veth)
 * undo.defer("create veth", () => deleteLink(host, veth.name))
 * return call.answer(result, undo) // what was made stays once the result has been written
 */
export { Failures, Undo } from "./undo.ts"
