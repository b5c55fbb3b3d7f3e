import { expect, test } from "bun:test"
import { encodeMessage } from "./message.ts"
import { assignNsid, findNsid, listNsids } from "./route-socket.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { acknowledge, done, hex, ScriptedKernel } from "./testing.ts"

/** Returns a kernel that answers with RTM_NEWNSID (88) and a single attribute NETNSA_NSID. */
function kernelWith(number: Uint8Array): ScriptedKernel {
  const payload = new Uint8Array([...hex`00000000 0800 0100`, ...number])
  return new ScriptedKernel(({ sequence }) => [encodeMessage(88, 0, sequence, payload)])
}

// The bytes that iproute2 6.1.0 sent for each line of `ip netns list`:
//   strace -e trace=sendmsg -e write=4 ip netns list
test("a namespace is asked for by a descriptor", () => {
  const kernel = kernelWith(hex`03000000`)
  expect(findNsid(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), 6)).toBe(3)
  const [request] = kernel.requests
  expect({ type: request?.type, flags: request?.flags }).toEqual({ type: 90, flags: 0x1 })
  expect(request?.payload).toEqual(hex`00000000 0800 0300 06000000`)
})

test("0 is an nsid, and -1 means no nsid", () => {
  expect(findNsid(new NetlinkSocket(NETLINK_ROUTE, 0, kernelWith(hex`00000000`)), 6)).toBe(0)
  expect(findNsid(new NetlinkSocket(NETLINK_ROUTE, 0, kernelWith(hex`ffffffff`)), 6)).toBeUndefined()
})

test("a descriptor of something else is EINVAL", () => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request, 22)])
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
  expect(() => findNsid(route, 6)).toThrow("find the nsid of namespace descriptor 6: EINVAL")
})

// strace -e trace=sendto,recvmsg -e write=3 -e read=3 ip netns list-id, after `ip netns set c 5`
test("all nsids are asked for, and 0 is one of them", () => {
  const answer = (nsid: Uint8Array) => new Uint8Array([...hex`00000000 0800 0100`, ...nsid])
  const kernel = new ScriptedKernel((request) => [
    encodeMessage(88, 2, request.sequence, answer(hex`05000000`)),
    encodeMessage(88, 2, request.sequence, answer(hex`00000000`)),
    done(request),
  ])
  expect(listNsids(new NetlinkSocket(NETLINK_ROUTE, 0, kernel))).toEqual([5, 0])
  const [request] = kernel.requests
  expect({ type: request?.type, flags: request?.flags }).toEqual({ type: 90, flags: 0x301 })
  expect(request?.payload).toEqual(hex`00000000`)
})

// ip netns set q auto
test("an nsid is assigned by a descriptor; an existing one is kept", () => {
  const payload = hex`00000000 08000300 06000000 08000100 ffffffff`
  for (const errno of [0, 17]) {
    const kernel = new ScriptedKernel((request) => [acknowledge(request, errno)])
    assignNsid(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), 6)
    expect(kernel.requests).toEqual([{ type: 88, flags: 5, sequence: 1, payload }])
  }
  const refusing = new ScriptedKernel((request) => [acknowledge(request, 22)])
  expect(() => assignNsid(new NetlinkSocket(NETLINK_ROUTE, 0, refusing), 6)).toThrow("EINVAL")
})
