/**
 * Taking back and carrying on: what ADD does when a step fails, and what DEL does when one fails.
 *
 * @example
 * using undo = new Undo(call.log) // declared after the sockets it needs: `using` runs backwards
 * undo.step("create veth", () => addVeth(host, veth), () => deleteLink(host, veth.name))
 * const result = call.encode({ … })
 * undo.keep() // the last statement before the result
 */
export { Failures } from "./failures.ts"
export { Undo } from "./undo.ts"
