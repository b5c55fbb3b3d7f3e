import { expect, test } from "bun:test"
import { Netns } from "../../../pkg/netns/mod.ts"
import { LinkWatch } from "../../../tools/reconcile/mod.ts"
import { HostNamespace, waitFor } from "../../lab/mod.ts"

test("a loss is told once: what has lost something is not told again until it loses more, and is decided on when it is asked for", async () => {
  await using host = await HostNamespace.create()
  const ip = (...args: string[]) => host.exec("ip", args)
  await ip("link", "add", "veth1", "type", "veth", "peer", "name", "eth0")
  await ip("link", "set", "veth1", "up")
  await ip("address", "add", "10.85.0.1/24", "dev", "veth1")
  await ip("route", "add", "10.86.0.0/24", "dev", "veth1")
  using namespace = Netns.open(host.path)
  using watch = namespace.run(() => new LinkWatch())
  const nothing = { isSuspect: false, isUnsure: false, isSetting: false, isOverrun: false }
  const unsure = () => waitFor(() => watch.take().isUnsure, "a loss")
  for (const lose of [
    ["route", "delete", "10.86.0.0/24"],
    ["address", "delete", "10.85.0.1/24", "dev", "veth1"],
    ["link", "set", "veth1", "down"],
  ]) {
    await ip(...lose)
    await unsure()
    await waitFor(() => !watch.take().isUnsure, "all to be heard")
    expect(watch.take()).toEqual(nothing)
    expect([watch.isShaken(), watch.isShaken()]).toEqual([true, false])
  }
  await ip("link", "set", "veth1", "up")
  await ip("link", "delete", "veth1")
  await waitFor(() => !watch.take().isUnsure, "all to be heard")
  expect(watch.isShaken()).toBe(false)
})
