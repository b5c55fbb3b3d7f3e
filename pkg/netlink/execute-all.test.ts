import { expect, test } from "bun:test"
import { executeAll } from "./execute-all.ts"
import { type Message, NLM_F_ACK, NLM_F_CREATE } from "./message.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { type Answer, acknowledge, ScriptedKernel } from "./testing.ts"

const [EEXIST, EINVAL, ENOBUFS, EAGAIN] = [17, 22, 105, 11]

const requests = (count: number) =>
  Array.from({ length: count }, (_, at) => ({
    type: 24,
    flags: NLM_F_CREATE,
    what: `add route ${at}`,
    payload: Uint8Array.of(at % 256),
    at,
  }))

function connect(script: (request: Message) => Answer[]) {
  const kernel = new ScriptedKernel(script)
  return { kernel, route: new NetlinkSocket(NETLINK_ROUTE, 0, kernel) }
}

/** Returns a script that refuses requests with certain bytes, and acknowledges others that ask for it. */
const refusing =
  (...refused: number[]) =>
  (request: Message) => {
    const errno = refused.includes(request.payload[0] ?? 0) ? EEXIST : 0
    return errno !== 0 || request.flags & NLM_F_ACK ? [acknowledge(request, errno)] : []
  }

test("many requests travel in one datagram, of which the last is acknowledged; a refusal stops no other", () => {
  const { kernel, route } = connect(refusing(3, 7, 249))
  const refusals = executeAll(route, requests(250))
  expect(refusals.map(({ request, error }) => [request.at, error.message])).toEqual([
    [3, "add route 3: EEXIST"],
    [7, "add route 7: EEXIST"],
    [249, "add route 249: EEXIST"],
  ])
  expect(kernel.datagrams).toHaveLength(3)
  expect(kernel.requests.filter(({ flags }) => flags & NLM_F_ACK).map(({ payload }) => payload[0])).toEqual([
    99, 199, 249,
  ])
})

test("nothing is sent for no request", () => {
  const { kernel, route } = connect(() => [])
  expect(executeAll(route, [])).toEqual([])
  expect(kernel.datagrams).toEqual([])
})

test("when an answer is lost each is asked for by itself, and what is there by then was done", () => {
  let isLost = true
  const { kernel, route } = connect((request) => {
    if (kernel.datagrams.length > 1) isLost = false
    if (isLost) return (request.payload[0] ?? 0) === 0 ? [ENOBUFS] : []
    return [acknowledge(request, (request.payload[0] ?? 0) === 2 ? EINVAL : EEXIST)]
  })
  const refusals = executeAll(route, requests(3))
  expect(refusals.map(({ request }) => request.at)).toEqual([2])
  expect(kernel.datagrams).toHaveLength(4)
})

test("a kernel that does not answer at all is an error", () => {
  const { route } = connect(() => [EAGAIN])
  expect(() => executeAll(route, requests(2))).toThrow("add route 0: EAGAIN")
})
